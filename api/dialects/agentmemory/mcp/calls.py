"""Which function answers which of agentmemory's tools."""

from collections.abc import Awaitable, Callable
from typing import Any

from api.dialects.agentmemory.mcp import (
    actions,
    antigravity,
    condense,
    export,
    lessons,
    memories,
    recall,
    sessions,
    slots,
)
from mcp_gateway.tools.tool import Answer, Door

CALLS: dict[str, Callable[[Door, dict[str, Any]], Awaitable[Answer]]] = {
    "memory_recall": recall.recall,
    "memory_save": memories.save,
    "memory_sessions": sessions.sessions,
    "memory_sessions_list": sessions.sessions,
    "memory_smart_search": recall.smart_search,
    "memory_timeline": recall.timeline,
    "memory_observations": sessions.observations,
    "memory_profile": sessions.profile,
    "memory_lessons": lessons.lessons,
    "memory_lesson_save": lessons.save,
    "memory_lesson_recall": lessons.search,
    "memory_lesson_search": lessons.search,
    "memory_consolidate": condense.consolidate,
    "memory_reflect": condense.reflect,
    "memory_diagnose": condense.diagnose,
    "memory_forget": memories.forget,
    "memory_export": export.export,
    "agent_observe": sessions.observe,
    "agent_remember": memories.save,
    "memory_antigravity_sync": antigravity.sync,
    "memory_antigravity_sync_all": antigravity.sync_all,
    "memory_slot_list": slots.slots,
    "memory_slot_get": slots.read,
    "memory_slot_create": slots.create,
    "memory_slot_append": slots.append,
    "memory_slot_replace": slots.replace,
    "memory_slot_delete": slots.delete,
    "memory_action_create": actions.create,
    "memory_action_update": actions.update,
    "memory_frontier": actions.ready,
    "memory_crystallize": condense.crystallize,
}
