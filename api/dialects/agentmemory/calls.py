"""What each MCP tool of agentmemory calls. Loads the index, which listing the tools must not."""

from collections.abc import Awaitable, Callable
from typing import Any

from api.dialects.agentmemory.actions import create_action, frontier, update_action
from api.dialects.agentmemory.antigravity import sync, sync_all
from api.dialects.agentmemory.condensing import consolidate, crystallize, reflect
from api.dialects.agentmemory.exporting import export
from api.dialects.agentmemory.knowledge import profile
from api.dialects.agentmemory.lessons import list_lessons, save_lesson, search_lessons
from api.dialects.agentmemory.maintenance import diagnose, forget
from api.dialects.agentmemory.memories import save_memory
from api.dialects.agentmemory.observing import observe_text
from api.dialects.agentmemory.replay import observations
from api.dialects.agentmemory.searching import recall, smart_search, timeline
from api.dialects.agentmemory.sessions import list_sessions
from api.dialects.agentmemory.slots import append_to_slot, create_slot, delete_slot, get_slot, list_slots, replace_slot
from mcp_gateway.tools.tool import Answer, ToolContext

CALLS: dict[str, Callable[[ToolContext, dict[str, Any]], Awaitable[Answer]]] = {
    "memory_recall": recall,
    "memory_save": save_memory,
    "memory_sessions": list_sessions,
    "memory_sessions_list": list_sessions,
    "memory_smart_search": smart_search,
    "memory_timeline": timeline,
    "memory_observations": observations,
    "memory_profile": profile,
    "memory_lessons": list_lessons,
    "memory_lesson_save": save_lesson,
    "memory_lesson_recall": search_lessons,
    "memory_lesson_search": search_lessons,
    "memory_consolidate": consolidate,
    "memory_reflect": reflect,
    "memory_diagnose": diagnose,
    "memory_forget": forget,
    "memory_export": export,
    "agent_observe": observe_text,
    "agent_remember": save_memory,
    "memory_antigravity_sync": sync,
    "memory_antigravity_sync_all": sync_all,
    "memory_slot_list": list_slots,
    "memory_slot_get": get_slot,
    "memory_slot_create": create_slot,
    "memory_slot_append": append_to_slot,
    "memory_slot_replace": replace_slot,
    "memory_slot_delete": delete_slot,
    "memory_action_create": create_action,
    "memory_action_update": update_action,
    "memory_frontier": frontier,
    "memory_crystallize": crystallize,
}
