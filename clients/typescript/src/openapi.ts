// Made by `make types` from the server's OpenAPI document. Do not edit.

export interface paths {
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Whether reads and writes work, and known limitations.
         * @description 200 if reads and writes work, with limitations in `degraded`; otherwise 503 with the reason. Checked on each request: the result is never cached.
         */
        get: operations["get_readyz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/actions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A project's work items, newest first.
         * @description A page of actions; with `open`, only open ones.
         */
        get: operations["get_v1_actions"];
        put?: never;
        /**
         * Create a work item, or change the one that the body names.
         * @description Write down a work item, or change the one that `action` names; what is null stays as it is. With the `token` of a claim, the change applies only while that claim is valid.
         */
        post: operations["post_v1_actions"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/actions/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get one of the actions.
         * @description One document by id, which may be shortened to seven digits or more. 404 for the id of another collection, and for documents that the reader can't see.
         */
        get: operations["get_v1_actions_id"];
        put?: never;
        post?: never;
        /**
         * Permanently delete one of the actions.
         * @description Delete one document. Removes its content from the documents, the index and the log; 404 if it does not exist.
         *
         *     The reason for a deletion; the event id makes a retry harmless.
         */
        delete: operations["delete_v1_actions_id"];
        options?: never;
        head?: never;
        /**
         * Change a work item.
         * @description Write down a work item, or change the one that `action` names; what is null stays as it is. With the `token` of a claim, the change applies only while that claim is valid.
         */
        patch: operations["patch_v1_actions_id"];
        trace?: never;
    };
    "/v1/actions/{id}/claim": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Claim a work item for a time.
         * @description One agent at a time holds it. Claims are decided in the order of the log, and leases end by the log's clock.
         *
         *     How long the claim lasts, unless it is renewed; the agent that claims, unless a header or the key names it.
         */
        post: operations["post_v1_actions_id_claim"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/actions/{id}/complete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Finish a work item that the agent holds.
         * @description The token of the claim, and what came of the work.
         */
        post: operations["post_v1_actions_id_complete"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/actions/{id}/release": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * End a claim, unfinished.
         * @description The token of the claim to end.
         */
        post: operations["post_v1_actions_id_release"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/actions/{id}/renew": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Extend a claim.
         * @description The claim's token, and how long it lasts from now on.
         */
        post: operations["post_v1_actions_id_renew"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/actions/claim_next": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Claim the best free work item of a project.
         * @description Which project's actions; with `labels`, only those with any of these tags.
         */
        post: operations["post_v1_actions_claim_next"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/agents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Agents, by name.
         * @description Those with documents that the reader can see, with the number of documents.
         *
         *     A page of the agents of one project, or of all.
         */
        get: operations["get_v1_agents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/confirm": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Confirm memories and lessons that proved correct.
         * @description Ids of recalled memories or lessons that proved correct.
         */
        post: operations["post_v1_confirm"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/context": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Compile the context for an agent that starts working.
         * @description Fits a token budget.
         *
         *     For whom to compile, and how much room there is. `min_confidence` and `time_zone` are recall's, of `query`.
         */
        post: operations["post_v1_context"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Events of the log.
         * @description Starting after a position. With `Accept: text/event-stream`, the same events as a stream that does not end, once they are projected, as of `GET /v1/live`; `limit` and `partition` are ignored.
         *
         *     A page of the log after the position `after`, without waiting for it.
         */
        get: operations["get_v1_events"];
        put?: never;
        /**
         * Write a batch of commands.
         * @description JSON array, NDJSON or msgpack array; up to 10,000 items or 16 MiB.
         */
        post: operations["post_v1_events"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/feedback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Judge memories and lessons that the agent was given.
         * @description `helped` ranks them higher, the other verdicts lower. Verdicts of different writers count, and fade with time.
         *
         *     The verdict on documents by id; without ids, on all memories and lessons that the answer `recall_id` gave. `project` is that of the answer's documents, where no ids are named.
         */
        post: operations["post_v1_feedback"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/forget": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Receipts of deletion requests, newest first.
         * @description With what was removed, and the results of a search afterward.
         *
         *     A page of receipts, after the receipt `cursor`.
         */
        get: operations["get_v1_forget"];
        put?: never;
        /**
         * Delete a session, a user or a project.
         * @description 202 with the receipt, which lists what was removed. The receipt is durable before the response is sent, so the request is carried out even after a crash. Before names were normalized to NFC, a user or project could be stored under another form of the name: that form gets a separate receipt.
         *
         *     What to delete: a session (with its project, if several have a session of that id), a user, or a project (`""` for the nameless one).
         */
        post: operations["post_v1_forget"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/forget/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The result of a deletion request.
         * @description With what was removed from each store, and the results of a search for it.
         */
        get: operations["get_v1_forget_id"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/frontier": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The work items that can be done now, most urgent first.
         * @description Of one project, or of all; omits items leased to agents other than `agent_id`.
         */
        get: operations["get_v1_frontier"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/lessons": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A project's lessons, newest first.
         * @description A page of lessons; with `retired`, including retired ones.
         */
        get: operations["get_v1_lessons"];
        put?: never;
        /**
         * Record a lesson.
         * @description State something learned; saying it again makes it stronger. A trigger says before which tool calls it shows.
         */
        post: operations["post_v1_lessons"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/lessons/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get one of the lessons.
         * @description One document by id, which may be shortened to seven digits or more. 404 for the id of another collection, and for documents that the reader can't see.
         */
        get: operations["get_v1_lessons_id"];
        put?: never;
        post?: never;
        /**
         * Permanently delete one of the lessons.
         * @description Delete one document. Removes its content from the documents, the index and the log; 404 if it does not exist.
         *
         *     The reason for a deletion; the event id makes a retry harmless.
         */
        delete: operations["delete_v1_lessons_id"];
        options?: never;
        head?: never;
        /**
         * Edit a lesson.
         * @description What to change in a lesson; null keeps a field as it is.
         */
        patch: operations["patch_v1_lessons_id"];
        trace?: never;
    };
    "/v1/lessons/{id}/reinforce": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Confirm a lesson again.
         * @description Raises its confidence.
         */
        post: operations["post_v1_lessons_id_reinforce"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/lessons/{id}/trigger": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Record that a lesson was shown to an agent.
         * @description Updates its trigger count and time.
         */
        post: operations["post_v1_lessons_id_trigger"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/lessons/match": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The lessons to show before a tool is used.
         * @description The most severe first; their texts without control characters. If the tool edits files of the project that other agents have claimed, also these claims.
         *
         *     The tool about to be used, and the beginning of its input.
         */
        get: operations["get_v1_lessons_match"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/lessons/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Lessons about a query, best first.
         * @description By relevance, confidence and recency.
         *
         *     Search the lessons of a project and the global ones, or all lessons.
         */
        post: operations["post_v1_lessons_search"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/lessons/surest": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The lessons with the most remaining confidence.
         * @description Filters by project and by `origin`.
         */
        get: operations["get_v1_lessons_surest"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/live": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Live events, as server-sent events, once they are projected.
         * @description Starting now or after a position; 429 while too many streams are open.
         *
         *     Which events; `after` starts after a position instead of now.
         */
        get: operations["get_v1_live"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/memories": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A project's memories, newest first.
         * @description A page of memories; with `latest`, current versions only.
         */
        get: operations["get_v1_memories"];
        put?: never;
        /**
         * Save a long-term memory.
         * @description Keep something for a long time. With `keep_duplicates` it supersedes nothing, nor is it superseded.
         */
        post: operations["post_v1_memories"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/memories/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get one of the memories.
         * @description One document by id, which may be shortened to seven digits or more. 404 for the id of another collection, and for documents that the reader can't see.
         */
        get: operations["get_v1_memories_id"];
        put?: never;
        post?: never;
        /**
         * Permanently delete one of the memories.
         * @description Delete one document. Removes its content from the documents, the index and the log; 404 if it does not exist.
         *
         *     The reason for a deletion; the event id makes a retry harmless.
         */
        delete: operations["delete_v1_memories_id"];
        options?: never;
        head?: never;
        /**
         * Change a memory: record a new version, or change its readers.
         * @description What to change of a memory; null stays, but new `content` drops the old `valid_until`. `visibility` and `shared_with` alone make no new version, unless there is an `expected_version`.
         */
        patch: operations["patch_v1_memories_id"];
        trace?: never;
    };
    "/v1/memories/{id}/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * All versions of a memory, oldest first.
         * @description Only those that the reader can see; the id can be of any version.
         */
        get: operations["get_v1_memories_id_history"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/observations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Record what an agent saw or did.
         * @description Record what an agent saw or did in a session.
         */
        post: operations["post_v1_observations"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/observations/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get one of the observations.
         * @description One document by id, which may be shortened to seven digits or more. 404 for the id of another collection, and for documents that the reader can't see.
         */
        get: operations["get_v1_observations_id"];
        put?: never;
        post?: never;
        /**
         * Permanently delete one of the observations.
         * @description Delete one document. Removes its content from the documents, the index and the log; 404 if it does not exist.
         *
         *     The reason for a deletion; the event id makes a retry harmless.
         */
        delete: operations["delete_v1_observations_id"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Projects, by name.
         * @description Those with documents that the reader can see, with the number of documents.
         *
         *     A page of names.
         */
        get: operations["get_v1_projects"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/recall": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Find the documents that answer a query.
         * @description What to recall. Everything but `query` narrows or weighs; nothing given searches all the tenant's documents. `projects` are several of which any will do, `any_tags` tags of which one will; `tags` are all needed. `types` is a memory's type or purpose, an observation's kind, a lesson's severity. `ranking` `similarity` is memex's formula exactly, `rrf` agent-memory's, where `recency_boost` lifts what is recent. With `min_confidence` results of less confidence are left out, for callers who prefer silence; those of unknown confidence stay. Without it nothing that was found is withheld: `certainty` of the answer says whether it is probably not recorded. `min_trust` is the lowest trust class of a result; from high to low: user_stated, agent_concluded, imported, tool_output, external. With `fold` a result represents those that say nearly the same, unless the question counts. With `max_tokens` the titles and contents of all results have at most so many tokens, and `content` is the snippet; a result that does not fit is left out, and counted in `omitted`. `prompt_of` is the session whose prompt the query is: nothing of that session is found, and nothing at all for small talk ("thanks, see you tomorrow"). A time that the query names ("yesterday", "on Tuesday") is resolved by `as_of`, else the clock, in `time_zone`, unless `from` or `to` is given.
         */
        post: operations["post_v1_recall"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Sessions, the most recently active first.
         * @description Of one project or of all. Each observation makes its session the most recently active.
         */
        get: operations["get_v1_sessions"];
        put?: never;
        /**
         * Start or end a session.
         * @description Say that a session started or ended. Never needed: an observation opens its session.
         */
        post: operations["post_v1_sessions"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * One session.
         * @description With its number of observations. Without a project, 422 if several projects have a session with that id.
         */
        get: operations["get_v1_sessions_id"];
        put?: never;
        post?: never;
        /**
         * Delete a session with its observations and its summary.
         * @description Returns the number of deleted documents.
         *
         *     Which of the sessions with that id to delete, and the reason.
         */
        delete: operations["delete_v1_sessions_id"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/observations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A session's observations, oldest first.
         * @description In the order they were recorded.
         */
        get: operations["get_v1_sessions_id_observations"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/reflect": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Update the automatic slots from a session.
         * @description Which of the sessions with that id, and how many of its newest observations are read.
         */
        post: operations["post_v1_sessions_id_reflect"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/story": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What a session came to so far.
         * @description Decisions in force, open work, and the newest requests with their answers, from what the user and the agent said. Available while the session runs; no model is called.
         */
        get: operations["get_v1_sessions_id_story"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{id}/summary": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The summary of a session.
         * @description 404 if it has none yet.
         */
        get: operations["get_v1_sessions_id_summary"];
        put?: never;
        /**
         * Summarize a session now.
         * @description A session that ends is summarized automatically.
         *
         *     Which of the sessions with that id.
         */
        post: operations["post_v1_sessions_id_summary"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/slots": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A project's slots and the global ones, by label.
         * @description The project of the slots; times filter by the last write.
         */
        get: operations["get_v1_slots"];
        put?: never;
        /**
         * Create a slot, replace its text, or add a line.
         * @description A slot to write; with `overwrite` false, an existing one is not replaced.
         */
        post: operations["post_v1_slots"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/slots/{label}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The slot of a project, else the global one with that label.
         * @description The project of the slot.
         */
        get: operations["get_v1_slots_label"];
        put?: never;
        post?: never;
        /**
         * Remove a slot.
         * @description A default slot becomes empty again.
         *
         *     Which slot to remove.
         */
        delete: operations["delete_v1_slots_label"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/timeline": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A project's observations by event time, newest first.
         * @description From all sessions, by the time their agents state.
         */
        get: operations["get_v1_timeline"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * Accepted
         * @description An acknowledged write: the id of its document, its event id, its position in the log, and how durable it is.
         *
         *         `duplicate` is true when the log already had the event id; `position` is then the first one's.
         */
        Accepted: {
            duplicate: boolean;
            /** @enum {unknown} */
            durability: "fsync" | "memory" | "replicated";
            event_id: string;
            id: string;
            position: string;
        };
        /**
         * Action
         * @description A work item. `holder` is the agent whose claim is valid until `expires_at`; empty and null without a claim.
         */
        Action: {
            agent_id: string;
            assigned_to: string;
            changed_by: string;
            created_at: string;
            crystallized_into: string;
            description: string;
            edges: components["schemas"]["ActionEdge"][];
            expires_at: string | null;
            holder: string;
            id: string;
            occurred_at: string;
            parent: string;
            paths: string[];
            priority: number;
            project: string;
            result: string;
            session_id: string;
            status: string;
            tags: string[];
            title: string;
            token: string;
            updated_at: string;
            version: number;
        };
        /**
         * ActionEdge
         * @description How a work item depends on another one.
         */
        ActionEdge: {
            target: string;
            /** @enum {unknown} */
            type: "conflicts_with" | "gated_by" | "requires" | "spawned_by" | "unlocks";
        };
        /**
         * AgentCount
         * @description An agent, and the number of its documents that the reader can see.
         */
        AgentCount: {
            agent_id: string;
            documents: number;
        };
        /**
         * Applied
         * @description An acknowledged change that depended on the document's state, and the version that it made.
         */
        Applied: {
            duplicate: boolean;
            /** @enum {unknown} */
            durability: "fsync" | "memory" | "replicated";
            event_id: string;
            /** @default null */
            expires_at?: string | null;
            id: string;
            position: string;
            /** @default 0 */
            version?: number;
        };
        /**
         * BatchAnswer
         * @description The result of a batch: counts, errors by index, one token for all of it, and its durability.
         */
        BatchAnswer: {
            accepted: number;
            duplicates: number;
            /** @enum {unknown} */
            durability: "fsync" | "memory" | "replicated";
            position: string;
            rejected: components["schemas"]["Rejection"][];
        };
        /**
         * Block
         * @description One part of a context: what it is, its text, its tokens, the documents it was made of.
         */
        Block: {
            /** @enum {unknown} */
            kind: "actions" | "claimed" | "lessons" | "memories" | "profile" | "recall" | "rules" | "session" | "slot" | "story" | "wishes";
            sources: string[];
            text: string;
            title: string;
            tokens: number;
        };
        /**
         * Claim
         * @description A claim that is valid until `expires_at`: its fencing token, and the action.
         *
         *         Pass the token to renew, release or complete the claim, and to whatever the work changes elsewhere. A later claim of
         *         the action has a greater position, so a store that remembers the greatest one can refuse an agent that lost its
         *         claim.
         */
        Claim: {
            action: components["schemas"]["Action"];
            duplicate: boolean;
            /** @enum {unknown} */
            durability: "fsync" | "memory" | "replicated";
            event_id: string;
            /** @default null */
            expires_at?: string | null;
            id: string;
            position: string;
            token: string;
            /** @default 0 */
            version?: number;
        };
        /**
         * ClaimRequest
         * @description How long the claim lasts, unless it is renewed; the agent that claims, unless a header or the key names it.
         */
        ClaimRequest: {
            /** @default  */
            agent_id?: string;
            /** @default  */
            event_id?: string;
            /** @default 300 */
            lease_seconds?: number;
        };
        /**
         * CompletionRequest
         * @description The token of the claim, and what came of the work.
         */
        CompletionRequest: {
            /** @default  */
            agent_id?: string;
            /** @default  */
            event_id?: string;
            /** @default null */
            result?: string | null;
            /** @default done */
            status?: string;
            token: string;
        };
        /**
         * Confirmed
         * @description The memories and lessons that count for more now, those that are not there, and the position after all of it.
         *
         *         `position` is empty where nothing was confirmed.
         */
        Confirmed: {
            confirmed: string[];
            event_id: string;
            position: string;
            unknown: string[];
        };
        /**
         * ConfirmRequest
         * @description Ids of recalled memories or lessons that proved correct.
         */
        ConfirmRequest: {
            /** @default  */
            event_id?: string;
            ids: string[];
        };
        /**
         * Context
         * @description A compiled context. `left_out` names what did not fit: blocks, and how many lines of a block. `notes` say
         *         that nothing is found of the project.
         */
        Context: {
            blocks: components["schemas"]["Block"][];
            context: string;
            left_out: string[];
            /** @default [] */
            notes?: string[];
            /** @default  */
            recall_id?: string;
            token_budget: number;
            tokens: number;
        };
        /**
         * ContextRequest
         * @description For whom to compile, and how much room there is. `min_confidence` and `time_zone` are recall's, of `query`.
         */
        ContextRequest: {
            /** @default  */
            after?: string;
            /** @default  */
            agent_id?: string;
            /** @default null */
            min_confidence?: number | null;
            project: string;
            /** @default  */
            query?: string;
            /** @default  */
            session_id?: string;
            /** @default  */
            time_zone?: string;
            /** @default 2000 */
            token_budget?: number;
            /** @default  */
            user_id?: string;
        };
        /**
         * DeleteSlot
         * @description Remove a slot.
         */
        DeleteSlot: {
            /** @default  */
            agent_id?: string;
            /** @default  */
            event_id?: string;
            /** @default null */
            expected_version?: number | null;
            label: string;
            /** @default {} */
            metadata?: {
                [key: string]: string;
            };
            /** @default null */
            occurred_at?: string | null;
            /** @default  */
            project?: string;
            /**
             * @default project
             * @enum {unknown}
             */
            scope?: "global" | "project";
            /** @default  */
            session_id?: string;
            /** @default  */
            trace?: string;
            /** @default  */
            trust?: ("agent_concluded" | "external" | "imported" | "tool_output" | "user_stated") | "";
            /** @enum {unknown} */
            type: "slot_delete";
            /** @default  */
            user_id?: string;
        };
        /**
         * Digest
         * @description A session in short; no sentence is in it twice. `decisions` are in the order they were made, with their reasons
         *         where those were given; `remaining` is what was left to do; files have the modified ones first. `told_by_tools` are
         *         the sentences of the narrative that tools told, `trust` is the lowest class of all others.
         */
        Digest: {
            concepts: string[];
            decisions: string[];
            files: string[];
            narrative: string;
            observation_count: number;
            /** @default [] */
            remaining?: string[];
            title: string;
            /** @default [] */
            told_by_tools?: string[];
            /**
             * @default agent_concluded
             * @enum {unknown}
             */
            trust?: "agent_concluded" | "external" | "imported" | "tool_output" | "user_stated";
        };
        /**
         * EventsPage
         * @description A page of the log. `next` is what to pass as `after` to continue; at the head the next page is empty.
         */
        EventsPage: {
            events: Record<string, unknown>[];
            next: string | null;
        };
        /**
         * Feedback
         * @description The judged documents; those that are no memory or lesson, or were not given to this agent; and the position.
         *
         *         `position` is empty if nothing was judged.
         */
        Feedback: {
            event_id: string;
            judged: string[];
            position: string;
            unknown: string[];
        };
        /**
         * FeedbackRequest
         * @description The verdict on documents by id; without ids, on all memories and lessons that the answer `recall_id` gave.
         *
         *         `project` is that of the answer's documents, where no ids are named.
         */
        FeedbackRequest: {
            /** @default  */
            agent_id?: string;
            /** @default  */
            event_id?: string;
            /** @default [] */
            ids?: string[];
            /** @default  */
            note?: string;
            /** @default  */
            project?: string;
            /** @default  */
            recall_id?: string;
            /** @enum {unknown} */
            verdict: "helped" | "misled" | "outdated" | "wrong";
        };
        /**
         * FileChange
         * @description A file that a document names, which was changed since: how often, when last, and by which observation.
         */
        FileChange: {
            at: string;
            by: string;
            file: string;
            times: number;
        };
        /**
         * ForgetRequest
         * @description What to delete: a session (with its project, if several have a session of that id), a user, or a project (`""`
         *         for the nameless one).
         */
        ForgetRequest: {
            /** @enum {unknown} */
            kind: "project" | "session" | "user";
            /** @default null */
            project?: string | null;
            /** @default  */
            reason?: string;
            subject: string;
        };
        /**
         * Forgotten
         * @description What a forgetting covered: how many documents of each kind, the position that covers all of it, and what that
         *         survives.
         */
        Forgotten: {
            documents: {
                [key: string]: number;
            };
            /**
             * @default memory
             * @enum {unknown}
             */
            durability?: "fsync" | "memory" | "replicated";
            event_id: string;
            position: string;
        };
        /**
         * FoundLesson
         * @description A lesson, and its score for a query.
         */
        FoundLesson: {
            active: boolean;
            agent_id: string;
            changed_by: string;
            confidence: number;
            content: string;
            context: string;
            derived_from: string[];
            id: string;
            occurred_at: string;
            origin: string;
            position: string;
            project: string;
            quarantined: string;
            recorded_at: string;
            reinforced_at: string;
            reinforcements: number;
            retired_at: string | null;
            score: number;
            severity: string;
            tags: string[];
            title: string;
            trigger_count: number;
            trigger_pattern: string;
            trigger_tool: string;
            triggered_at: string | null;
            /** @enum {unknown} */
            trust: "agent_concluded" | "external" | "imported" | "tool_output" | "user_stated";
            updated_at: string;
            user_id: string;
            version: number;
        };
        /**
         * Frontier
         * @description The work items that can be done now, and the number of open ones.
         */
        Frontier: {
            items: components["schemas"]["ReadyAction"][];
            open: number;
        };
        /**
         * HealthSample
         * @description How everything is at one moment. Sizes are in bytes, counts are of all partitions together.
         *
         *         `oldest_pending_s` is the age of the first event that is not projected, `pending_bytes` the size of all such events.
         *         `replicas` are API processes, `dimensions` those of new vectors. `memory_limit` is `maxmemory`, 0 for none; on a
         *         cluster both are of the fullest node. `index_partly`: the index is not ready, for some partitions alone.
         *         `embed_later` is about how many texts did not fit into the embedding queue, and are found by static vectors until
         *         they are queued; `oldest_to_embed_s` is how long the oldest queued text has waited. `outdated_s` is for how long the
         *         index has followed a generation that is no longer live, `rebuild_due` why documents need a rebuild, `lost_writes`
         *         which acknowledged events the log's server came back without. `away` are the partitions on cluster nodes that do not
         *         answer: no figure counts them; `nodes_down` names the nodes, also replicas. `log_folder_gone`: the folder that the
         *         log's server writes to was deleted. `jobs_trouble` is why the job queue's own server cannot be reached; empty where
         *         it can, or where it is the log's.
         */
        HealthSample: {
            /** @default [] */
            away?: number[];
            /** @default 0 */
            dead_letters?: number;
            /** @default 0 */
            dimensions?: number;
            /** @default null */
            disk_free?: number | null;
            /** @default 0 */
            embed_later?: number;
            /** @default 0 */
            feed_entries?: number;
            /** @default false */
            index_partly?: boolean;
            /** @default true */
            index_ready?: boolean;
            /** @default  */
            index_trouble?: string;
            /** @default  */
            jobs_trouble?: string;
            /** @default null */
            log_file_ok?: boolean | null;
            /** @default false */
            log_folder_gone?: boolean;
            /** @default  */
            lost_writes?: string;
            /** @default 0 */
            machine_memory?: number;
            /** @default 0 */
            memory_limit?: number;
            /** @default null */
            memory_used?: number | null;
            /** @default  */
            nodes_down?: string;
            /** @default 0 */
            oldest_pending_s?: number;
            /** @default 0 */
            oldest_to_embed_s?: number;
            /** @default 0 */
            outdated_s?: number;
            /** @default 0 */
            pending_bytes?: number;
            /** @default  */
            rebuild_due?: string;
            /** @default 0 */
            replicas?: number;
            /** @default null */
            snapshot_age_s?: number | null;
            /** @default 0 */
            to_embed?: number;
            /** @default 0 */
            workers?: number;
        };
        /**
         * InSession
         * @description Which of the sessions with that id.
         */
        InSession: {
            /** @default null */
            project?: string | null;
        };
        /**
         * Items[FoundLesson]
         * @description All there is.
         */
        Items_FoundLesson_: {
            items: components["schemas"]["FoundLesson"][];
        };
        /**
         * Items[Memory]
         * @description All there is.
         */
        Items_Memory_: {
            items: components["schemas"]["Memory"][];
        };
        /**
         * Items[Slot]
         * @description All there is.
         */
        Items_Slot_: {
            items: components["schemas"]["Slot"][];
        };
        /**
         * Items[SureLesson]
         * @description All there is.
         */
        Items_SureLesson_: {
            items: components["schemas"]["SureLesson"][];
        };
        /**
         * Judgment
         * @description The newest verdict of one writer on a memory.
         */
        Judgment: {
            at: string;
            /** @enum {unknown} */
            verdict: "helped" | "misled" | "outdated" | "wrong";
            writer: string;
        };
        /**
         * Lesson
         * @description Something learned. `confidence` is as of `reinforced_at`.
         */
        Lesson: {
            active: boolean;
            agent_id: string;
            changed_by: string;
            confidence: number;
            content: string;
            context: string;
            derived_from: string[];
            id: string;
            occurred_at: string;
            origin: string;
            position: string;
            project: string;
            quarantined: string;
            recorded_at: string;
            reinforced_at: string;
            reinforcements: number;
            retired_at: string | null;
            severity: string;
            tags: string[];
            title: string;
            trigger_count: number;
            trigger_pattern: string;
            trigger_tool: string;
            triggered_at: string | null;
            /** @enum {unknown} */
            trust: "agent_concluded" | "external" | "imported" | "tool_output" | "user_stated";
            updated_at: string;
            user_id: string;
            version: number;
        };
        /**
         * LessonMatches
         * @description The lessons to show before a tool is used, and the actions of other agents whose claimed files it edits.
         */
        LessonMatches: {
            claimed: components["schemas"]["Action"][];
            items: components["schemas"]["Lesson"][];
        };
        /**
         * LessonSearch
         * @description Search the lessons of a project and the global ones, or all lessons.
         */
        LessonSearch: {
            /** @default 10 */
            limit?: number;
            /** @default 0.1 */
            min_confidence?: number;
            /** @default null */
            project?: string | null;
            query: string;
        };
        /**
         * LinkCommit
         * @description Link a version-control commit to the project, and to the session that made it.
         */
        LinkCommit: {
            /** @default  */
            agent_id?: string;
            /** @default  */
            author?: string;
            /** @default  */
            authored_at?: string;
            /** @default  */
            branch?: string;
            commit: string;
            /** @default  */
            event_id?: string;
            /** @default [] */
            files?: string[];
            /** @default  */
            message?: string;
            /** @default {} */
            metadata?: {
                [key: string]: string;
            };
            /** @default null */
            occurred_at?: string | null;
            /** @default  */
            project?: string;
            /** @default  */
            repo?: string;
            /** @default  */
            session_id?: string;
            /** @default  */
            trace?: string;
            /** @default  */
            trust?: ("agent_concluded" | "external" | "imported" | "tool_output" | "user_stated") | "";
            /** @enum {unknown} */
            type: "commit";
            /** @default  */
            user_id?: string;
        };
        /** Memory */
        Memory: {
            agent_id: string;
            concepts: string[];
            condensed: string[];
            confirmations: number;
            confirmed_at: string | null;
            content: string;
            derived_from: string[];
            event_id: string;
            files: string[];
            forget_after: string | null;
            id: string;
            importance: number;
            is_latest: boolean;
            keep_duplicates: boolean;
            mandatory: boolean;
            /** @enum {unknown} */
            memory_type: "episodic" | "procedural" | "rule" | "semantic";
            metadata: {
                [key: string]: string;
            };
            model: string;
            occurred_at: string;
            owner: string;
            parent_id: string;
            position: string;
            project: string;
            prompt_version: string;
            /** @enum {unknown} */
            purpose: "information" | "question" | "request";
            quarantined: string;
            recorded_at: string;
            references: string[];
            session_id: string;
            shared_with: string[];
            source: string;
            superseded_at: string | null;
            superseded_by: string;
            tags: string[];
            title: string;
            /** @enum {unknown} */
            trust: "agent_concluded" | "external" | "imported" | "tool_output" | "user_stated";
            updated_at: string;
            user_id: string;
            valid_until: string | null;
            verdicts: components["schemas"]["Judgment"][];
            version: number;
            /** @enum {unknown} */
            visibility: "private" | "public" | "shared";
        };
        /**
         * MemoryChanges
         * @description What to change of a memory; null stays, but new `content` drops the old `valid_until`.
         *
         *         `visibility` and `shared_with` alone make no new version, unless there is an `expected_version`.
         */
        MemoryChanges: {
            /** @default  */
            agent_id?: string;
            /** @default null */
            concepts?: string[] | null;
            /** @default null */
            content?: string | null;
            /** @default  */
            event_id?: string;
            /** @default null */
            expected_version?: number | null;
            /** @default null */
            files?: string[] | null;
            /** @default null */
            importance?: number | null;
            /** @default null */
            mandatory?: boolean | null;
            /** @default null */
            memory_type?: ("episodic" | "procedural" | "rule" | "semantic") | null;
            /** @default null */
            purpose?: ("information" | "question" | "request") | null;
            /** @default null */
            references?: string[] | null;
            /** @default null */
            shared_with?: string[] | null;
            /** @default null */
            tags?: string[] | null;
            /** @default null */
            title?: string | null;
            /** @default null */
            valid_until?: string | null;
            /** @default null */
            visibility?: ("private" | "public" | "shared") | null;
        };
        /**
         * NextClaimRequest
         * @description Which project's actions; with `labels`, only those with any of these tags.
         */
        NextClaimRequest: {
            /** @default  */
            agent_id?: string;
            /** @default  */
            event_id?: string;
            labels?: string[];
            /** @default 300 */
            lease_seconds?: number;
            /** @default  */
            project?: string;
        };
        /** Observation */
        Observation: {
            agent_id: string;
            concepts: string[];
            confidence: number;
            content: string;
            data: Record<string, unknown>;
            event_id: string;
            facts: string[];
            files: string[];
            headline: string;
            id: string;
            importance: number;
            kind: string;
            metadata: {
                [key: string]: string;
            };
            model: string;
            narrative: string;
            occurred_at: string;
            position: string;
            project: string;
            prompt_version: string;
            quarantined: string;
            recorded_at: string;
            role: string;
            session_id: string;
            source: string;
            subtitle: string;
            title: string;
            /** @enum {unknown} */
            trust: "agent_concluded" | "external" | "imported" | "tool_output" | "user_stated";
            /** @enum {unknown} */
            turn: "agent" | "compaction" | "harness" | "subagent" | "tool" | "user";
            user_id: string;
            words: string;
        };
        /**
         * Observe
         * @description Record what an agent saw or did in a session.
         */
        Observe: {
            /** @default  */
            agent_id?: string;
            /** @default  */
            content?: string;
            /** @default {} */
            data?: Record<string, unknown>;
            /** @default  */
            event_id?: string;
            /** @default  */
            kind?: string;
            /** @default {} */
            metadata?: {
                [key: string]: string;
            };
            /** @default null */
            occurred_at?: string | null;
            /** @default  */
            project?: string;
            /** @default  */
            session_id?: string;
            /** @default  */
            trace?: string;
            /** @default  */
            trust?: ("agent_concluded" | "external" | "imported" | "tool_output" | "user_stated") | "";
            /** @enum {unknown} */
            type: "observe";
            /** @default  */
            user_id?: string;
        };
        /**
         * Omitted
         * @description Results that `max_tokens` left out: how many, and how many tokens they have.
         */
        Omitted: {
            /** @default 0 */
            count?: number;
            /** @default 0 */
            tokens?: number;
        };
        /**
         * Page[Action]
         * @description Part of a listing; `next` is the `cursor` of what follows, null at the end. `notes` say of an empty one that
         *         nothing at all is found of its project.
         */
        Page_Action_: {
            items: components["schemas"]["Action"][];
            next: string | null;
            notes?: string[];
        };
        /**
         * Page[AgentCount]
         * @description Part of a listing; `next` is the `cursor` of what follows, null at the end. `notes` say of an empty one that
         *         nothing at all is found of its project.
         */
        Page_AgentCount_: {
            items: components["schemas"]["AgentCount"][];
            next: string | null;
            notes?: string[];
        };
        /**
         * Page[Lesson]
         * @description Part of a listing; `next` is the `cursor` of what follows, null at the end. `notes` say of an empty one that
         *         nothing at all is found of its project.
         */
        Page_Lesson_: {
            items: components["schemas"]["Lesson"][];
            next: string | null;
            notes?: string[];
        };
        /**
         * Page[Memory]
         * @description Part of a listing; `next` is the `cursor` of what follows, null at the end. `notes` say of an empty one that
         *         nothing at all is found of its project.
         */
        Page_Memory_: {
            items: components["schemas"]["Memory"][];
            next: string | null;
            notes?: string[];
        };
        /**
         * Page[ProjectCount]
         * @description Part of a listing; `next` is the `cursor` of what follows, null at the end. `notes` say of an empty one that
         *         nothing at all is found of its project.
         */
        Page_ProjectCount_: {
            items: components["schemas"]["ProjectCount"][];
            next: string | null;
            notes?: string[];
        };
        /**
         * Page[Receipt]
         * @description Part of a listing; `next` is the `cursor` of what follows, null at the end. `notes` say of an empty one that
         *         nothing at all is found of its project.
         */
        Page_Receipt_: {
            items: components["schemas"]["Receipt"][];
            next: string | null;
            notes?: string[];
        };
        /**
         * Page[Session]
         * @description Part of a listing; `next` is the `cursor` of what follows, null at the end. `notes` say of an empty one that
         *         nothing at all is found of its project.
         */
        Page_Session_: {
            items: components["schemas"]["Session"][];
            next: string | null;
            notes?: string[];
        };
        /**
         * Probe
         * @description A search for what was forgotten, made afterward: `found` must be 0.
         */
        Probe: {
            documents: number;
            found: number;
            queries: number;
        };
        /**
         * ProjectCount
         * @description A project (`""` is the nameless one), and the number of its documents that the reader can see.
         */
        ProjectCount: {
            documents: number;
            project: string;
        };
        /**
         * ReadyAction
         * @description A work item that nothing blocks; `leased` while an agent works on it.
         */
        ReadyAction: {
            agent_id: string;
            assigned_to: string;
            changed_by: string;
            created_at: string;
            crystallized_into: string;
            description: string;
            edges: components["schemas"]["ActionEdge"][];
            expires_at: string | null;
            holder: string;
            id: string;
            leased: boolean;
            occurred_at: string;
            parent: string;
            paths: string[];
            priority: number;
            project: string;
            result: string;
            score: number;
            session_id: string;
            status: string;
            tags: string[];
            title: string;
            token: string;
            updated_at: string;
            version: number;
        };
        /**
         * RecallAnswer
         * @description What was recalled. `confidence` (0..1) is how likely the subject of the query is recorded, also where nothing is
         *         returned, and `certainty` the words for it; None where that is not known. `lag`: log entries not searchable yet, by
         *         partition; `degraded`: what was left out; `notes`: names in the request of which nothing is found, and whether only
         *         the rarest terms of a long query were searched; `omitted` is null without `max_tokens`;
         *         `recall_id` names the answer in feedback and in the read ledger.
         */
        RecallAnswer: {
            /** @default null */
            certainty?: ("probably not recorded" | "recorded" | "uncertain") | null;
            /** @default null */
            confidence?: number | null;
            degraded: string[];
            lag: {
                [key: string]: number;
            };
            /** @default [] */
            notes?: string[];
            /** @default null */
            omitted?: components["schemas"]["Omitted"] | null;
            /** @default  */
            recall_id?: string;
            results: components["schemas"]["RecallResult"][];
            took_ms: number;
        };
        /**
         * RecallRequest
         * @description What to recall. Everything but `query` narrows or weighs; nothing given searches all the tenant's documents.
         *
         *         `projects` are several of which any will do, `any_tags` tags of which one will; `tags` are all needed. `types` is a
         *         memory's type or purpose, an observation's kind, a lesson's severity. `ranking` `similarity` is memex's formula
         *         exactly, `rrf` agent-memory's, where `recency_boost` lifts what is recent.
         *
         *         With `min_confidence` results of less confidence are left out, for callers who prefer silence; those of unknown
         *         confidence stay. Without it nothing that was found is withheld: `certainty` of the answer says whether it is
         *         probably not recorded. `min_trust` is the lowest trust class of a result; from high to low:
         *         user_stated, agent_concluded, imported, tool_output, external. With `fold` a result represents those that say nearly
         *         the same, unless the question counts.
         *
         *         With `max_tokens` the titles and contents of all results have at most so many tokens, and `content` is the snippet;
         *         a result that does not fit is left out, and counted in `omitted`.
         *
         *         `prompt_of` is the session whose prompt the query is: nothing of that session is found, and nothing at all for small
         *         talk ("thanks, see you tomorrow").
         *
         *         A time that the query names ("yesterday", "on Tuesday") is resolved by `as_of`, else the clock, in `time_zone`,
         *         unless `from` or `to` is given.
         */
        RecallRequest: {
            /** @default  */
            after?: string;
            /** @default  */
            agent_id?: string;
            /** @default null */
            alpha?: number | null;
            /** @default [] */
            any_tags?: string[];
            /** @default null */
            as_of?: string | null;
            /** @default [] */
            concepts?: string[];
            /**
             * @default session
             * @enum {unknown}
             */
            consistency?: "eventual" | "session";
            /** @default false */
            explain?: boolean;
            /** @default [] */
            files?: string[];
            /** @default true */
            fold?: boolean;
            /** @default null */
            from?: string | null;
            /** @default null */
            half_life_days?: number | null;
            /** @default [] */
            kinds?: ("lesson" | "memory" | "observation" | "summary")[];
            /** @default 10 */
            limit?: number;
            /** @default null */
            max_tokens?: number | null;
            /** @default null */
            min_confidence?: number | null;
            /** @default null */
            min_trust?: ("agent_concluded" | "external" | "imported" | "tool_output" | "user_stated") | null;
            /**
             * @default hybrid
             * @enum {unknown}
             */
            mode?: "hybrid" | "lexical" | "vector";
            /** @default null */
            project?: string | null;
            /** @default [] */
            projects?: string[];
            /** @default  */
            prompt_of?: string;
            query: string;
            /**
             * @default fused
             * @enum {unknown}
             */
            ranking?: "fused" | "rrf" | "similarity";
            /** @default true */
            recency_boost?: boolean;
            /** @default  */
            session_id?: string;
            /** @default [] */
            tags?: string[];
            /** @default  */
            time_zone?: string;
            /** @default null */
            to?: string | null;
            /** @default [] */
            types?: string[];
            /** @default  */
            user_id?: string;
        };
        /**
         * RecallResult
         * @description One recalled document. `score` is comparable within one answer only, `confidence` (0..1) among all; no result has
         *         a higher one than those before it.
         *
         *         `snippet` is the part of it that the query's words are in, `trust` its trust class (left out: agent_concluded).
         *         `derived_from` are the documents it was made of, `confirmed` how often it proved right, `repeats` those that say
         *         nearly the same and the summary that quotes it. `changed_since` are files that a memory or lesson names and that
         *         were changed after it, and `valid_until` is when a memory stops being true, or stopped. `superseded_by` is a newer
         *         result that probably replaces this one.
         */
        RecallResult: {
            agent_id: string | null;
            /** @default [] */
            changed_since?: components["schemas"]["FileChange"][];
            /** @default null */
            confidence?: number | null;
            /** @default 0 */
            confirmed?: number;
            content: string;
            /** @default 1 */
            corroborated_by?: number;
            /** @default [] */
            derived_from?: string[];
            /** @default null */
            explain?: {
                [key: string]: number;
            } | null;
            id: string;
            /** @enum {unknown} */
            kind: "lesson" | "memory" | "observation" | "summary";
            metadata: {
                [key: string]: string;
            };
            occurred_at: string;
            project: string;
            /** @default [] */
            repeats?: string[];
            score: number;
            session_id: string | null;
            snippet: string;
            /** @default  */
            superseded_by?: string;
            title: string;
            /**
             * @default agent_concluded
             * @enum {unknown}
             */
            trust?: "agent_concluded" | "external" | "imported" | "tool_output" | "user_stated";
            /** @default null */
            valid_until?: string | null;
        };
        /**
         * Receipt
         * @description One request to forget. `subject` is a digest where it is a user; `name` is emptied when it is done.
         */
        Receipt: {
            /** @default  */
            agent_id?: string;
            /** @default 0 */
            attempts?: number;
            /** @default  */
            error?: string;
            /** @default null */
            finished_at?: string | null;
            id: string;
            /** @enum {unknown} */
            kind: "action" | "commit" | "lesson" | "memory" | "observation" | "project" | "relation" | "session" | "slot" | "user";
            /** @default  */
            name?: string;
            /** @default false */
            nameless?: boolean;
            /** @default null */
            probe?: components["schemas"]["Probe"] | null;
            /** @default  */
            project?: string;
            /** @default  */
            reason?: string;
            /**
             * @default {
             *       "log_entries": 0,
             *       "documents": {},
             *       "embedding_cache": 0,
             *       "change_feeds": 0,
             *       "snapshot": "",
             *       "older_snapshots": 0,
             *       "replicas": 0,
             *       "replicas_waiting": 0,
             *       "append_only_file": "",
             *       "archive_segments": 0,
             *       "read_ledger": 0
             *     }
             */
            removed?: components["schemas"]["Removed"];
            requested_at: string;
            /** @default pending */
            status?: string;
            subject: string;
            tenant: string;
            /** @default  */
            until?: string;
        };
        /**
         * RecordLesson
         * @description State something learned; saying it again makes it stronger. A trigger says before which tool calls it shows.
         */
        RecordLesson: {
            /** @default  */
            agent_id?: string;
            /** @default 0.5 */
            confidence?: number;
            content: string;
            /** @default  */
            context?: string;
            /** @default [] */
            derived_from?: string[];
            /** @default  */
            event_id?: string;
            /** @default {} */
            metadata?: {
                [key: string]: string;
            };
            /** @default null */
            occurred_at?: string | null;
            /** @default manual */
            origin?: string;
            /** @default  */
            project?: string;
            /** @default  */
            session_id?: string;
            /**
             * @default
             * @enum {unknown}
             */
            severity?: "" | "critical" | "info" | "warning";
            /** @default [] */
            tags?: string[];
            /** @default  */
            title?: string;
            /** @default  */
            trace?: string;
            /** @default  */
            trigger_pattern?: string;
            /** @default  */
            trigger_tool?: string;
            /** @default  */
            trust?: ("agent_concluded" | "external" | "imported" | "tool_output" | "user_stated") | "";
            /** @enum {unknown} */
            type: "lesson";
            /** @default  */
            user_id?: string;
        };
        /**
         * Rejection
         * @description Why one item of a batch was rejected.
         */
        Rejection: {
            code: string;
            /** @default null */
            field?: string | null;
            index: number;
            message: string;
        };
        /**
         * Relate
         * @description Relate two documents, or withdraw that (`remove`).
         */
        Relate: {
            /** @default  */
            agent_id?: string;
            /** @default null */
            confidence?: number | null;
            /** @default [] */
            derived_from?: string[];
            /** @default  */
            event_id?: string;
            /** @default {} */
            metadata?: {
                [key: string]: string;
            };
            /** @default null */
            occurred_at?: string | null;
            /** @default  */
            project?: string;
            relation: string;
            /** @default false */
            remove?: boolean;
            /** @default  */
            session_id?: string;
            source: string;
            target: string;
            /** @default  */
            trace?: string;
            /** @default  */
            trust?: ("agent_concluded" | "external" | "imported" | "tool_output" | "user_stated") | "";
            /** @enum {unknown} */
            type: "relation";
            /** @default  */
            user_id?: string;
        };
        /**
         * ReleaseRequest
         * @description The token of the claim to end.
         */
        ReleaseRequest: {
            /** @default  */
            agent_id?: string;
            /** @default  */
            event_id?: string;
            token: string;
        };
        /**
         * Remember
         * @description Keep something for a long time. With `keep_duplicates` it supersedes nothing, nor is it superseded.
         */
        Remember: {
            /** @default  */
            agent_id?: string;
            /** @default [] */
            concepts?: string[];
            content: string;
            /** @default [] */
            derived_from?: string[];
            /** @default  */
            event_id?: string;
            /** @default [] */
            files?: string[];
            /** @default 5 */
            importance?: number;
            /** @default false */
            keep_duplicates?: boolean;
            /** @default false */
            mandatory?: boolean;
            /**
             * @default semantic
             * @enum {unknown}
             */
            memory_type?: "episodic" | "procedural" | "rule" | "semantic";
            /** @default {} */
            metadata?: {
                [key: string]: string;
            };
            /** @default null */
            occurred_at?: string | null;
            /** @default  */
            owner?: string;
            /** @default  */
            project?: string;
            /**
             * @default information
             * @enum {unknown}
             */
            purpose?: "information" | "question" | "request";
            /** @default [] */
            references?: string[];
            /** @default  */
            session_id?: string;
            /** @default [] */
            shared_with?: string[];
            /** @default [] */
            tags?: string[];
            /** @default  */
            title?: string;
            /** @default  */
            trace?: string;
            /** @default  */
            trust?: ("agent_concluded" | "external" | "imported" | "tool_output" | "user_stated") | "";
            /** @default null */
            ttl_days?: number | null;
            /** @enum {unknown} */
            type: "remember";
            /** @default  */
            user_id?: string;
            /** @default null */
            valid_until?: string | null;
            /**
             * @default public
             * @enum {unknown}
             */
            visibility?: "private" | "public" | "shared";
        };
        /**
         * RememberAnswer
         * @description An acknowledged memory; the memories that it superseded, and current ones that are similar and were left alone.
         *
         *         The newest first, at most ten. Both are absent where they are not known in time, or the caller can't read.
         */
        RememberAnswer: {
            duplicate: boolean;
            /** @enum {unknown} */
            durability: "fsync" | "memory" | "replicated";
            event_id: string;
            id: string;
            position: string;
            similar?: string[];
            superseded?: string[];
        };
        /**
         * Removed
         * @description What went from each store. `documents` counts by kind; `replicas` are index replicas that have reloaded.
         *
         *         `append_only_file` says whether the server was asked to rewrite it, which is where it drops what was deleted.
         *         `archive_segments` were rewritten: 0 also when an earlier run did that. `read_ledger` has the entries of a project.
         */
        Removed: {
            /** @default  */
            append_only_file?: string;
            /** @default 0 */
            archive_segments?: number;
            /** @default 0 */
            change_feeds?: number;
            /** @default {} */
            documents?: {
                [key: string]: number;
            };
            /** @default 0 */
            embedding_cache?: number;
            /** @default 0 */
            log_entries?: number;
            /** @default 0 */
            older_snapshots?: number;
            /** @default 0 */
            read_ledger?: number;
            /** @default 0 */
            replicas?: number;
            /** @default 0 */
            replicas_waiting?: number;
            /** @default  */
            snapshot?: string;
        };
        /**
         * RenewalRequest
         * @description The claim's token, and how long it lasts from now on.
         */
        RenewalRequest: {
            /** @default  */
            agent_id?: string;
            /** @default  */
            event_id?: string;
            /** @default 300 */
            lease_seconds?: number;
            token: string;
        };
        /**
         * Session
         * @description A session; `summarised` is how many of its observations its summary covers.
         *
         *         `retired_observations` of them are in the log alone, since `retired_at`; `retired` says that all of them are.
         */
        Session: {
            agent_id: string;
            agent_type: string;
            cwd: string;
            ended_at: string | null;
            first_prompt: string;
            id: string;
            observation_count: number;
            project: string;
            retired: boolean;
            retired_at: string | null;
            retired_observations: number;
            started_at: string;
            /** @enum {unknown} */
            status: "active" | "ended" | "failed";
            summarised: number;
            title: string;
            updated_at: string;
            user_id: string;
            worked: boolean;
        };
        /**
         * SessionReflectRequest
         * @description Which of the sessions with that id, and how many of its newest observations are read.
         */
        SessionReflectRequest: {
            /** @default 50 */
            max_observations?: number;
            /** @default null */
            project?: string | null;
        };
        /**
         * SessionStory
         * @description What a session came to so far: decisions in force, open work, and its newest exchanges; oldest first.
         */
        SessionStory: {
            decisions: string[];
            exchanges: components["schemas"]["StoryExchange"][];
            remaining: string[];
        };
        /**
         * SetSlot
         * @description Create a slot or replace its text; with `append`, add a line to it. What is null stays as it is.
         */
        SetSlot: {
            /** @default  */
            agent_id?: string;
            /** @default false */
            append?: boolean;
            content: string;
            /** @default null */
            description?: string | null;
            /** @default  */
            event_id?: string;
            /** @default null */
            expected_version?: number | null;
            label: string;
            /** @default {} */
            metadata?: {
                [key: string]: string;
            };
            /** @default null */
            occurred_at?: string | null;
            /** @default null */
            pinned?: boolean | null;
            /** @default  */
            project?: string;
            /** @default null */
            read_only?: boolean | null;
            /**
             * @default project
             * @enum {unknown}
             */
            scope?: "global" | "project";
            /** @default  */
            session_id?: string;
            /** @default null */
            size_limit?: number | null;
            /** @default  */
            trace?: string;
            /** @default  */
            trust?: ("agent_concluded" | "external" | "imported" | "tool_output" | "user_stated") | "";
            /** @enum {unknown} */
            type: "slot";
            /** @default  */
            user_id?: string;
        };
        /**
         * Shortcoming
         * @description A degraded condition; `code` is stable.
         */
        Shortcoming: {
            code: string;
            message: string;
        };
        /**
         * Slot
         * @description A small named text. `size` and `size_limit` are characters; times are null for a slot that was never written.
         *
         *         Its version is 0 then.
         */
        Slot: {
            agent_id: string;
            content: string;
            created_at: string | null;
            description: string;
            id: string;
            label: string;
            occurred_at: string | null;
            pinned: boolean;
            project: string;
            read_only: boolean;
            /** @enum {unknown} */
            scope: "global" | "project";
            size: number;
            size_limit: number;
            updated_at: string | null;
            version: number;
        };
        /**
         * SlotsMade
         * @description The number of slots that were changed, and of observations that were read.
         */
        SlotsMade: {
            observations: number;
            position: string;
            slots_changed: number;
        };
        /**
         * SomeRetired[Observation]
         * @description Part of a listing that lacks what was retired: `note` says so, and where that is.
         *
         *         `retired_observations` are those of the session, since `retired_at`; a timeline does not count them.
         */
        SomeRetired_Observation_: {
            items: components["schemas"]["Observation"][];
            next: string | null;
            note?: string;
            notes?: string[];
            retired_at?: string;
            retired_observations?: number;
        };
        /**
         * StoryExchange
         * @description A request of the user, and the beginning of the agent's last answer to it.
         */
        StoryExchange: {
            answer: string;
            request: string;
        };
        /** Summary */
        Summary: {
            agent_id: string;
            concepts: string[];
            decisions: string[];
            files: string[];
            id: string;
            model: string;
            narrative: string;
            observation_count: number;
            occurred_at: string;
            position: string;
            project: string;
            prompt_version: string;
            recorded_at: string;
            remaining: string[];
            session_id: string;
            title: string;
            told_by_tools: string[];
            /** @enum {unknown} */
            trust: "agent_concluded" | "external" | "imported" | "tool_output" | "user_stated";
            user_id: string;
        };
        /**
         * SummaryMade
         * @description A session's summary and its author; `fell_back` says why a configured model did not write it.
         */
        SummaryMade: {
            fell_back: string;
            model: string;
            position: string;
            summary: components["schemas"]["Digest"];
        };
        /**
         * SureLesson
         * @description A lesson, and its remaining confidence.
         */
        SureLesson: {
            active: boolean;
            agent_id: string;
            changed_by: string;
            confidence: number;
            confidence_now: number;
            content: string;
            context: string;
            derived_from: string[];
            id: string;
            occurred_at: string;
            origin: string;
            position: string;
            project: string;
            quarantined: string;
            recorded_at: string;
            reinforced_at: string;
            reinforcements: number;
            retired_at: string | null;
            severity: string;
            tags: string[];
            title: string;
            trigger_count: number;
            trigger_pattern: string;
            trigger_tool: string;
            triggered_at: string | null;
            /** @enum {unknown} */
            trust: "agent_concluded" | "external" | "imported" | "tool_output" | "user_stated";
            updated_at: string;
            user_id: string;
            version: number;
        };
        /**
         * TrackSession
         * @description Say that a session started or ended. Never needed: an observation opens its session.
         */
        TrackSession: {
            /** @default  */
            agent_id?: string;
            /** @default  */
            agent_type?: string;
            /** @default  */
            cwd?: string;
            /** @default  */
            event_id?: string;
            /** @default {} */
            metadata?: {
                [key: string]: string;
            };
            /** @default null */
            occurred_at?: string | null;
            /**
             * @default completed
             * @enum {unknown}
             */
            outcome?: "completed" | "failed";
            /** @default  */
            project?: string;
            /** @default  */
            reason?: string;
            /** @default  */
            session_id?: string;
            /** @enum {unknown} */
            status: "ended" | "started";
            /** @default  */
            title?: string;
            /** @default  */
            trace?: string;
            /** @default  */
            trust?: ("agent_concluded" | "external" | "imported" | "tool_output" | "user_stated") | "";
            /** @enum {unknown} */
            type: "session";
            /** @default  */
            user_id?: string;
        };
        /**
         * Usable
         * @description Reads and writes work; `degraded` lists the limitations. `lag` counts pending entries by partition.
         *
         *         Server-wide figures are included for operator and metrics keys.
         */
        Usable: {
            degraded: components["schemas"]["Shortcoming"][];
            documents?: number;
            lag?: {
                [key: string]: number;
            };
            /** @enum {unknown} */
            status: "degraded" | "ready";
            vitals?: components["schemas"]["HealthSample"];
        };
        /**
         * WriteAction
         * @description Write down a work item, or change the one that `action` names; what is null stays as it is.
         *
         *         With the `token` of a claim, the change applies only while that claim is valid.
         */
        WriteAction: {
            /** @default  */
            action?: string;
            /** @default  */
            agent_id?: string;
            /** @default null */
            assigned_to?: string | null;
            /** @default null */
            crystallized_into?: string | null;
            /** @default null */
            description?: string | null;
            /** @default [] */
            edges?: components["schemas"]["ActionEdge"][];
            /** @default  */
            event_id?: string;
            /** @default null */
            expected_version?: number | null;
            /** @default {} */
            metadata?: {
                [key: string]: string;
            };
            /** @default null */
            occurred_at?: string | null;
            /** @default  */
            parent?: string;
            /** @default null */
            paths?: string[] | null;
            /** @default null */
            priority?: number | null;
            /** @default  */
            project?: string;
            /** @default [] */
            requires?: string[];
            /** @default null */
            result?: string | null;
            /** @default  */
            session_id?: string;
            /** @default null */
            status?: string | null;
            /** @default null */
            tags?: string[] | null;
            /** @default null */
            title?: string | null;
            /** @default  */
            token?: string;
            /** @default  */
            trace?: string;
            /** @default  */
            trust?: ("agent_concluded" | "external" | "imported" | "tool_output" | "user_stated") | "";
            /** @enum {unknown} */
            type: "action";
            /** @default  */
            user_id?: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    get_readyz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "status": "ready",
                     *       "degraded": [],
                     *       "documents": 4,
                     *       "lag": {},
                     *       "vitals": {
                     *         "oldest_pending_s": 0,
                     *         "dead_letters": 0,
                     *         "pending_bytes": 0,
                     *         "to_embed": 0,
                     *         "oldest_to_embed_s": 0,
                     *         "feed_entries": 0,
                     *         "workers": 1,
                     *         "replicas": 1,
                     *         "dimensions": 0,
                     *         "memory_used": 91234567,
                     *         "memory_limit": 0,
                     *         "machine_memory": 8589934592,
                     *         "log_file_ok": true,
                     *         "disk_free": null,
                     *         "snapshot_age_s": 340.5,
                     *         "index_ready": true,
                     *         "index_partly": false,
                     *         "index_trouble": "",
                     *         "outdated_s": 0,
                     *         "lost_writes": "",
                     *         "embed_later": 0
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Usable"];
                };
            };
        };
    };
    get_v1_actions: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
                /** @description The `next` of the previous page. */
                cursor?: string;
                /** @description The maximum number of results. */
                limit?: number;
                /** @description Only open work items. */
                open?: boolean;
                /**
                 * @description Only this project; an empty value selects the nameless project.
                 * @example shop
                 */
                project?: string;
                /** @description Only documents recorded at or after this time. */
                recorded_since?: string;
                /** @description Only documents recorded before this time. */
                recorded_until?: string;
                /** @description Only documents whose event time is at or after this time. */
                since?: string;
                /** @description Only documents whose event time is before this time. */
                until?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "id": "act_a78d002ba85080345705",
                     *           "project": "shop",
                     *           "version": 1,
                     *           "changed_by": "ada",
                     *           "holder": "",
                     *           "token": "",
                     *           "expires_at": null,
                     *           "paths": [],
                     *           "title": "Give refunds a key",
                     *           "description": "",
                     *           "status": "pending",
                     *           "priority": 8,
                     *           "tags": [],
                     *           "edges": [],
                     *           "parent": "",
                     *           "session_id": "",
                     *           "agent_id": "ada",
                     *           "assigned_to": "",
                     *           "result": "",
                     *           "crystallized_into": "",
                     *           "occurred_at": "2026-01-31T12:00:00Z",
                     *           "created_at": "2026-01-31T12:00:00Z",
                     *           "updated_at": "2026-01-31T12:00:00Z"
                     *         }
                     *       ],
                     *       "next": null
                     *     }
                     */
                    "application/json": components["schemas"]["Page_Action_"];
                };
            };
        };
    };
    post_v1_actions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "project": "shop",
                 *       "title": "Give refunds a key",
                 *       "priority": 8,
                 *       "requires": [
                 *         "act_c4ae9e1c12399a718678"
                 *       ]
                 *     }
                 */
                "application/json": {
                    /** @default  */
                    action?: string;
                    /** @default  */
                    agent_id?: string;
                    /** @default null */
                    assigned_to?: string | null;
                    /** @default null */
                    crystallized_into?: string | null;
                    /** @default null */
                    description?: string | null;
                    /** @default [] */
                    edges?: components["schemas"]["ActionEdge"][];
                    /** @default  */
                    event_id?: string;
                    /** @default null */
                    expected_version?: number | null;
                    /** @default {} */
                    metadata?: {
                        [key: string]: string;
                    };
                    /** @default null */
                    occurred_at?: string | null;
                    /** @default  */
                    parent?: string;
                    /** @default null */
                    paths?: string[] | null;
                    /** @default null */
                    priority?: number | null;
                    /** @default  */
                    project?: string;
                    /** @default [] */
                    requires?: string[];
                    /** @default null */
                    result?: string | null;
                    /** @default  */
                    session_id?: string;
                    /** @default null */
                    status?: string | null;
                    /** @default null */
                    tags?: string[] | null;
                    /** @default null */
                    title?: string | null;
                    /** @default  */
                    token?: string;
                    /** @default  */
                    trace?: string;
                    /** @default  */
                    trust?: ("agent_concluded" | "external" | "imported" | "tool_output" | "user_stated") | "";
                    /** @enum {unknown} */
                    type?: "action";
                    /** @default  */
                    user_id?: string;
                };
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "act_a78d002ba85080345705",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync",
                     *       "version": 2,
                     *       "expires_at": null
                     *     }
                     */
                    "application/json": components["schemas"]["Applied"];
                };
            };
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "mem_9f01e400307031dcf3e6",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync"
                     *     }
                     */
                    "application/json": components["schemas"]["Accepted"];
                };
            };
        };
    };
    get_v1_actions_id: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example act_a78d002ba85080345705
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "act_a78d002ba85080345705",
                     *       "project": "shop",
                     *       "version": 1,
                     *       "changed_by": "ada",
                     *       "holder": "",
                     *       "token": "",
                     *       "expires_at": null,
                     *       "paths": [],
                     *       "title": "Give refunds a key",
                     *       "description": "",
                     *       "status": "pending",
                     *       "priority": 8,
                     *       "tags": [],
                     *       "edges": [],
                     *       "parent": "",
                     *       "session_id": "",
                     *       "agent_id": "ada",
                     *       "assigned_to": "",
                     *       "result": "",
                     *       "crystallized_into": "",
                     *       "occurred_at": "2026-01-31T12:00:00Z",
                     *       "created_at": "2026-01-31T12:00:00Z",
                     *       "updated_at": "2026-01-31T12:00:00Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Action"];
                };
            };
        };
    };
    delete_v1_actions_id: {
        parameters: {
            query?: {
                /** @description An idempotency key for the write: sending it again changes nothing. */
                event_id?: string;
                /** @description The reason for the deletion. */
                reason?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example act_a78d002ba85080345705
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "mem_9f01e400307031dcf3e6",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync"
                     *     }
                     */
                    "application/json": components["schemas"]["Accepted"];
                };
            };
        };
    };
    patch_v1_actions_id: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example act_a78d002ba85080345705
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "project": "shop",
                 *       "title": "Give refunds a key",
                 *       "priority": 8,
                 *       "requires": [
                 *         "act_c4ae9e1c12399a718678"
                 *       ]
                 *     }
                 */
                "application/json": {
                    /** @default  */
                    action?: string;
                    /** @default  */
                    agent_id?: string;
                    /** @default null */
                    assigned_to?: string | null;
                    /** @default null */
                    crystallized_into?: string | null;
                    /** @default null */
                    description?: string | null;
                    /** @default [] */
                    edges?: components["schemas"]["ActionEdge"][];
                    /** @default  */
                    event_id?: string;
                    /** @default null */
                    expected_version?: number | null;
                    /** @default {} */
                    metadata?: {
                        [key: string]: string;
                    };
                    /** @default null */
                    occurred_at?: string | null;
                    /** @default  */
                    parent?: string;
                    /** @default null */
                    paths?: string[] | null;
                    /** @default null */
                    priority?: number | null;
                    /** @default  */
                    project?: string;
                    /** @default [] */
                    requires?: string[];
                    /** @default null */
                    result?: string | null;
                    /** @default  */
                    session_id?: string;
                    /** @default null */
                    status?: string | null;
                    /** @default null */
                    tags?: string[] | null;
                    /** @default null */
                    title?: string | null;
                    /** @default  */
                    token?: string;
                    /** @default  */
                    trace?: string;
                    /** @default  */
                    trust?: ("agent_concluded" | "external" | "imported" | "tool_output" | "user_stated") | "";
                    /** @enum {unknown} */
                    type?: "action";
                    /** @default  */
                    user_id?: string;
                };
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "act_a78d002ba85080345705",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync",
                     *       "version": 2,
                     *       "expires_at": null
                     *     }
                     */
                    "application/json": components["schemas"]["Applied"];
                };
            };
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "mem_9f01e400307031dcf3e6",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync"
                     *     }
                     */
                    "application/json": components["schemas"]["Accepted"];
                };
            };
        };
    };
    post_v1_actions_id_claim: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example act_a78d002ba85080345705
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "lease_seconds": 300
                 *     }
                 */
                "application/json": components["schemas"]["ClaimRequest"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "act_a78d002ba85080345705",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync",
                     *       "version": 2,
                     *       "expires_at": "2026-01-31T12:05:00Z",
                     *       "token": "1769860800000-0",
                     *       "action": {
                     *         "id": "act_a78d002ba85080345705",
                     *         "project": "shop",
                     *         "version": 2,
                     *         "changed_by": "bob",
                     *         "holder": "bob",
                     *         "token": "1769860800000-0",
                     *         "expires_at": "2026-01-31T12:05:00Z",
                     *         "paths": [],
                     *         "title": "Give refunds a key",
                     *         "description": "",
                     *         "status": "active",
                     *         "priority": 8,
                     *         "tags": [],
                     *         "edges": [],
                     *         "parent": "",
                     *         "session_id": "",
                     *         "agent_id": "ada",
                     *         "assigned_to": "bob",
                     *         "result": "",
                     *         "crystallized_into": "",
                     *         "occurred_at": "2026-01-31T12:00:00Z",
                     *         "created_at": "2026-01-31T12:00:00Z",
                     *         "updated_at": "2026-01-31T12:00:00Z"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Claim"];
                };
            };
        };
    };
    post_v1_actions_id_complete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example act_a78d002ba85080345705
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "token": "1769860800000-0",
                 *       "result": "Refunds have a key."
                 *     }
                 */
                "application/json": components["schemas"]["CompletionRequest"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "act_a78d002ba85080345705",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync",
                     *       "version": 2,
                     *       "expires_at": null
                     *     }
                     */
                    "application/json": components["schemas"]["Applied"];
                };
            };
        };
    };
    post_v1_actions_id_release: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example act_a78d002ba85080345705
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "token": "1769860800000-0"
                 *     }
                 */
                "application/json": components["schemas"]["ReleaseRequest"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "act_a78d002ba85080345705",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync",
                     *       "version": 2,
                     *       "expires_at": null
                     *     }
                     */
                    "application/json": components["schemas"]["Applied"];
                };
            };
        };
    };
    post_v1_actions_id_renew: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example act_a78d002ba85080345705
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "token": "1769860800000-0",
                 *       "lease_seconds": 300
                 *     }
                 */
                "application/json": components["schemas"]["RenewalRequest"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "act_a78d002ba85080345705",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync",
                     *       "version": 2,
                     *       "expires_at": "2026-01-31T12:05:00Z",
                     *       "token": "1769860800000-0",
                     *       "action": {
                     *         "id": "act_a78d002ba85080345705",
                     *         "project": "shop",
                     *         "version": 2,
                     *         "changed_by": "bob",
                     *         "holder": "bob",
                     *         "token": "1769860800000-0",
                     *         "expires_at": "2026-01-31T12:05:00Z",
                     *         "paths": [],
                     *         "title": "Give refunds a key",
                     *         "description": "",
                     *         "status": "active",
                     *         "priority": 8,
                     *         "tags": [],
                     *         "edges": [],
                     *         "parent": "",
                     *         "session_id": "",
                     *         "agent_id": "ada",
                     *         "assigned_to": "bob",
                     *         "result": "",
                     *         "crystallized_into": "",
                     *         "occurred_at": "2026-01-31T12:00:00Z",
                     *         "created_at": "2026-01-31T12:00:00Z",
                     *         "updated_at": "2026-01-31T12:00:00Z"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Claim"];
                };
            };
        };
    };
    post_v1_actions_claim_next: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "project": "shop",
                 *       "labels": [
                 *         "python"
                 *       ],
                 *       "lease_seconds": 300
                 *     }
                 */
                "application/json": components["schemas"]["NextClaimRequest"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "act_a78d002ba85080345705",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync",
                     *       "version": 2,
                     *       "expires_at": "2026-01-31T12:05:00Z",
                     *       "token": "1769860800000-0",
                     *       "action": {
                     *         "id": "act_a78d002ba85080345705",
                     *         "project": "shop",
                     *         "version": 2,
                     *         "changed_by": "bob",
                     *         "holder": "bob",
                     *         "token": "1769860800000-0",
                     *         "expires_at": "2026-01-31T12:05:00Z",
                     *         "paths": [],
                     *         "title": "Give refunds a key",
                     *         "description": "",
                     *         "status": "active",
                     *         "priority": 8,
                     *         "tags": [],
                     *         "edges": [],
                     *         "parent": "",
                     *         "session_id": "",
                     *         "agent_id": "ada",
                     *         "assigned_to": "bob",
                     *         "result": "",
                     *         "crystallized_into": "",
                     *         "occurred_at": "2026-01-31T12:00:00Z",
                     *         "created_at": "2026-01-31T12:00:00Z",
                     *         "updated_at": "2026-01-31T12:00:00Z"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Claim"];
                };
            };
        };
    };
    get_v1_agents: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
                /** @description The `next` of the previous page. */
                cursor?: string;
                /** @description The maximum number of results. */
                limit?: number;
                /**
                 * @description Only this project; an empty value selects the nameless project.
                 * @example shop
                 */
                project?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "agent_id": "ada",
                     *           "documents": 6
                     *         }
                     *       ],
                     *       "next": null
                     *     }
                     */
                    "application/json": components["schemas"]["Page_AgentCount_"];
                };
            };
        };
    };
    post_v1_confirm: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "ids": [
                 *         "mem_9f01e400307031dcf3e6"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["ConfirmRequest"];
            };
        };
        responses: {
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "confirmed": [
                     *         "mem_9f01e400307031dcf3e6"
                     *       ],
                     *       "unknown": [],
                     *       "position": "0:1769860800000-0"
                     *     }
                     */
                    "application/json": components["schemas"]["Confirmed"];
                };
            };
        };
    };
    post_v1_context: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "project": "shop",
                 *       "query": "the checkout",
                 *       "token_budget": 2000
                 *     }
                 */
                "application/json": components["schemas"]["ContextRequest"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "context": "## Memories\n- We deploy on Tuesdays, never on Fridays.",
                     *       "blocks": [
                     *         {
                     *           "kind": "memories",
                     *           "title": "Memories",
                     *           "text": "## Memories\n- We deploy on Tuesdays, never on Fridays.",
                     *           "tokens": 18,
                     *           "sources": [
                     *             "mem_9f01e400307031dcf3e6"
                     *           ]
                     *         }
                     *       ],
                     *       "tokens": 36,
                     *       "token_budget": 400,
                     *       "left_out": []
                     *     }
                     */
                    "application/json": components["schemas"]["Context"];
                };
            };
        };
    };
    get_v1_events: {
        parameters: {
            query?: {
                /** @description Continue after this position, without waiting for it. */
                after?: string;
                /** @description Only documents by this agent. */
                agent_id?: string;
                /** @description Only events about this kind of document (memory, lesson, action, ...) or type of memory (rule, ...). */
                kind?: string;
                /** @description The maximum number of results. */
                limit?: number;
                /** @description Only this partition of the log. */
                partition?: number;
                /**
                 * @description Only this project; an empty value selects the nameless project.
                 * @example shop
                 */
                project?: string;
                /** @description Only documents recorded at or after this time. */
                recorded_since?: string;
                /** @description Only documents recorded before this time. */
                recorded_until?: string;
                /** @description Only this session. */
                session_id?: string;
                /** @description Only documents whose event time is at or after this time. */
                since?: string;
                /** @description Only events about the document with this id. */
                subject?: string;
                /** @description Only events of these types: names and patterns such as `action.*`, separated by commas. */
                type?: string;
                /** @description Only documents whose event time is before this time. */
                until?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "events": [
                     *         {
                     *           "position": "0:1769860800000-0",
                     *           "recorded_at": "2026-01-31T12:00:00Z",
                     *           "project": "shop",
                     *           "agent_id": "ada",
                     *           "session_id": "",
                     *           "user_id": "",
                     *           "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *           "type": "memory.recorded",
                     *           "version": 2,
                     *           "tenant": "default",
                     *           "occurred_at": "2026-01-31T12:00:00Z",
                     *           "data": {
                     *             "content": "We deploy on Tuesdays, never on Fridays.",
                     *             "tags": [
                     *               "deploy"
                     *             ],
                     *             "concepts": [
                     *               "deploy"
                     *             ],
                     *             "importance": 5
                     *           }
                     *         }
                     *       ],
                     *       "next": "0:1769860800000-0"
                     *     }
                     */
                    "application/json": components["schemas"]["EventsPage"];
                };
            };
        };
    };
    post_v1_events: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example [
                 *       {
                 *         "type": "observe",
                 *         "project": "shop",
                 *         "session_id": "s1",
                 *         "agent_id": "ada",
                 *         "event_id": "my-1",
                 *         "content": "Checkout times out when Redis restarts.",
                 *         "data": {
                 *           "tool_name": "Bash",
                 *           "tool_input": {
                 *             "command": "make test"
                 *           },
                 *           "tool_output": "1 failed"
                 *         }
                 *       },
                 *       {
                 *         "type": "remember",
                 *         "project": "shop",
                 *         "content": "We deploy on Tuesdays, never on Fridays.",
                 *         "tags": [
                 *           "deploy"
                 *         ],
                 *         "importance": 7
                 *       }
                 *     ]
                 */
                "application/json": (components["schemas"]["Observe"] | components["schemas"]["Remember"] | components["schemas"]["RecordLesson"] | components["schemas"]["TrackSession"] | components["schemas"]["LinkCommit"] | components["schemas"]["SetSlot"] | components["schemas"]["DeleteSlot"] | components["schemas"]["WriteAction"] | components["schemas"]["Relate"])[];
                "application/msgpack": (components["schemas"]["Observe"] | components["schemas"]["Remember"] | components["schemas"]["RecordLesson"] | components["schemas"]["TrackSession"] | components["schemas"]["LinkCommit"] | components["schemas"]["SetSlot"] | components["schemas"]["DeleteSlot"] | components["schemas"]["WriteAction"] | components["schemas"]["Relate"])[];
                "application/x-ndjson": (components["schemas"]["Observe"] | components["schemas"]["Remember"] | components["schemas"]["RecordLesson"] | components["schemas"]["TrackSession"] | components["schemas"]["LinkCommit"] | components["schemas"]["SetSlot"] | components["schemas"]["DeleteSlot"] | components["schemas"]["WriteAction"] | components["schemas"]["Relate"])[];
            };
        };
        responses: {
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "accepted": 1,
                     *       "duplicates": 0,
                     *       "rejected": [
                     *         {
                     *           "index": 1,
                     *           "code": "invalid",
                     *           "message": "unknown field `contents`",
                     *           "field": "contents"
                     *         }
                     *       ],
                     *       "position": "0:1769860800000-0",
                     *       "durability": "fsync"
                     *     }
                     */
                    "application/json": components["schemas"]["BatchAnswer"];
                };
            };
        };
    };
    post_v1_feedback: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "verdict": "helped",
                 *       "ids": [
                 *         "mem_9f01e400307031dcf3e6"
                 *       ],
                 *       "recall_id": "01M86G37QABSREYRWQMKFM3F1R"
                 *     }
                 */
                "application/json": components["schemas"]["FeedbackRequest"];
            };
        };
        responses: {
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "judged": [
                     *         "mem_9f01e400307031dcf3e6"
                     *       ],
                     *       "unknown": [],
                     *       "position": "0:1769860800000-0"
                     *     }
                     */
                    "application/json": components["schemas"]["Feedback"];
                };
            };
        };
    };
    get_v1_forget: {
        parameters: {
            query?: {
                /** @description A receipt id; older receipts follow. */
                cursor?: string;
                /** @description The maximum number of results. */
                limit?: number;
                /** @description Only documents recorded at or after this time. */
                recorded_since?: string;
                /** @description Only documents recorded before this time. */
                recorded_until?: string;
                /** @description Only documents whose event time is at or after this time. */
                since?: string;
                /** @description Only documents whose event time is before this time. */
                until?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "id": "01M86G37QABSREYRWQMKFM3F1R",
                     *           "tenant": "default",
                     *           "kind": "session",
                     *           "subject": "s1",
                     *           "name": "",
                     *           "nameless": false,
                     *           "project": "shop",
                     *           "reason": "",
                     *           "agent_id": "ada",
                     *           "status": "done",
                     *           "requested_at": "2026-01-31T12:00:00Z",
                     *           "finished_at": "2026-01-31T12:00:00Z",
                     *           "attempts": 1,
                     *           "until": "0:1769860800000-0,1:1769860800000-0",
                     *           "error": "",
                     *           "removed": {
                     *             "log_entries": 4,
                     *             "documents": {
                     *               "observation": 1,
                     *               "commit": 1,
                     *               "session": 1
                     *             },
                     *             "embedding_cache": 0,
                     *             "change_feeds": 13,
                     *             "snapshot": "01M86G37QABSREYRWQMKFM3F1R",
                     *             "older_snapshots": 0,
                     *             "replicas": 1,
                     *             "replicas_waiting": 0,
                     *             "append_only_file": "being rewritten",
                     *             "archive_segments": 0,
                     *             "read_ledger": 0
                     *           },
                     *           "probe": {
                     *             "documents": 3,
                     *             "queries": 1,
                     *             "found": 0
                     *           }
                     *         }
                     *       ],
                     *       "next": null
                     *     }
                     */
                    "application/json": components["schemas"]["Page_Receipt_"];
                };
            };
        };
    };
    post_v1_forget: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "kind": "user",
                 *       "subject": "kim",
                 *       "reason": "asked to"
                 *     }
                 */
                "application/json": components["schemas"]["ForgetRequest"];
            };
        };
        responses: {
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "tenant": "default",
                     *       "kind": "session",
                     *       "subject": "s1",
                     *       "name": "",
                     *       "nameless": false,
                     *       "project": "shop",
                     *       "reason": "",
                     *       "agent_id": "ada",
                     *       "status": "done",
                     *       "requested_at": "2026-01-31T12:00:00Z",
                     *       "finished_at": "2026-01-31T12:00:00Z",
                     *       "attempts": 1,
                     *       "until": "0:1769860800000-0,1:1769860800000-0",
                     *       "error": "",
                     *       "removed": {
                     *         "log_entries": 4,
                     *         "documents": {
                     *           "observation": 1,
                     *           "commit": 1,
                     *           "session": 1
                     *         },
                     *         "embedding_cache": 0,
                     *         "change_feeds": 13,
                     *         "snapshot": "01M86G37QABSREYRWQMKFM3F1R",
                     *         "older_snapshots": 0,
                     *         "replicas": 1,
                     *         "replicas_waiting": 0,
                     *         "append_only_file": "being rewritten",
                     *         "archive_segments": 0,
                     *         "read_ledger": 0
                     *       },
                     *       "probe": {
                     *         "documents": 3,
                     *         "queries": 1,
                     *         "found": 0
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Receipt"];
                };
            };
        };
    };
    get_v1_forget_id: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example 01M86G37QABSREYRWQMKFM3F1R
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "tenant": "default",
                     *       "kind": "session",
                     *       "subject": "s1",
                     *       "name": "",
                     *       "nameless": false,
                     *       "project": "shop",
                     *       "reason": "",
                     *       "agent_id": "ada",
                     *       "status": "done",
                     *       "requested_at": "2026-01-31T12:00:00Z",
                     *       "finished_at": "2026-01-31T12:00:00Z",
                     *       "attempts": 1,
                     *       "until": "0:1769860800000-0,1:1769860800000-0",
                     *       "error": "",
                     *       "removed": {
                     *         "log_entries": 4,
                     *         "documents": {
                     *           "observation": 1,
                     *           "commit": 1,
                     *           "session": 1
                     *         },
                     *         "embedding_cache": 0,
                     *         "change_feeds": 13,
                     *         "snapshot": "01M86G37QABSREYRWQMKFM3F1R",
                     *         "older_snapshots": 0,
                     *         "replicas": 1,
                     *         "replicas_waiting": 0,
                     *         "append_only_file": "being rewritten",
                     *         "archive_segments": 0,
                     *         "read_ledger": 0
                     *       },
                     *       "probe": {
                     *         "documents": 3,
                     *         "queries": 1,
                     *         "found": 0
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Receipt"];
                };
            };
        };
    };
    get_v1_frontier: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
                /** @description Omit work items that other agents are working on. */
                agent_id?: string;
                /** @description The maximum number of results. */
                limit?: number;
                /**
                 * @description Only this project; an empty value selects the nameless project.
                 * @example shop
                 */
                project?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "id": "act_a78d002ba85080345705",
                     *           "project": "shop",
                     *           "version": 1,
                     *           "changed_by": "ada",
                     *           "holder": "",
                     *           "token": "",
                     *           "expires_at": null,
                     *           "paths": [],
                     *           "title": "Give refunds a key",
                     *           "description": "",
                     *           "status": "pending",
                     *           "priority": 8,
                     *           "tags": [],
                     *           "edges": [],
                     *           "parent": "",
                     *           "session_id": "",
                     *           "agent_id": "ada",
                     *           "assigned_to": "",
                     *           "result": "",
                     *           "crystallized_into": "",
                     *           "occurred_at": "2026-01-31T12:00:00Z",
                     *           "created_at": "2026-01-31T12:00:00Z",
                     *           "updated_at": "2026-01-31T12:00:00Z",
                     *           "score": 80,
                     *           "leased": false
                     *         }
                     *       ],
                     *       "open": 1
                     *     }
                     */
                    "application/json": components["schemas"]["Frontier"];
                };
            };
        };
    };
    get_v1_lessons: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
                /** @description The `next` of the previous page. */
                cursor?: string;
                /** @description The maximum number of results. */
                limit?: number;
                /**
                 * @description Only this project; an empty value selects the nameless project.
                 * @example shop
                 */
                project?: string;
                /** @description Only documents recorded at or after this time. */
                recorded_since?: string;
                /** @description Only documents recorded before this time. */
                recorded_until?: string;
                /** @description Include retired lessons. */
                retired?: boolean;
                /** @description Only documents whose event time is at or after this time. */
                since?: string;
                /** @description Only documents whose event time is before this time. */
                until?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "id": "lsn_48de97ae3dbd3d0e49e9",
                     *           "version": 1,
                     *           "changed_by": "ada",
                     *           "project": "shop",
                     *           "agent_id": "ada",
                     *           "user_id": "",
                     *           "title": "",
                     *           "content": "Raise the pool size before a sale",
                     *           "context": "",
                     *           "tags": [],
                     *           "confidence": 0.5,
                     *           "reinforcements": 0,
                     *           "origin": "manual",
                     *           "severity": "warning",
                     *           "trigger_tool": "Bash",
                     *           "trigger_pattern": "deploy",
                     *           "trigger_count": 0,
                     *           "triggered_at": null,
                     *           "active": true,
                     *           "derived_from": [],
                     *           "occurred_at": "2026-01-31T12:00:00Z",
                     *           "recorded_at": "2026-01-31T12:00:00Z",
                     *           "reinforced_at": "2026-01-31T12:00:00Z",
                     *           "updated_at": "2026-01-31T12:00:00Z",
                     *           "retired_at": null,
                     *           "position": "1769860800000-0",
                     *           "trust": "agent_concluded",
                     *           "quarantined": ""
                     *         }
                     *       ],
                     *       "next": null
                     *     }
                     */
                    "application/json": components["schemas"]["Page_Lesson_"];
                };
            };
        };
    };
    post_v1_lessons: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "project": "shop",
                 *       "content": "Raise the pool size before a sale",
                 *       "severity": "warning",
                 *       "trigger_tool": "Bash",
                 *       "trigger_pattern": "deploy"
                 *     }
                 */
                "application/json": {
                    /** @default  */
                    agent_id?: string;
                    /** @default 0.5 */
                    confidence?: number;
                    content: string;
                    /** @default  */
                    context?: string;
                    /** @default [] */
                    derived_from?: string[];
                    /** @default  */
                    event_id?: string;
                    /** @default {} */
                    metadata?: {
                        [key: string]: string;
                    };
                    /** @default null */
                    occurred_at?: string | null;
                    /** @default manual */
                    origin?: string;
                    /** @default  */
                    project?: string;
                    /** @default  */
                    session_id?: string;
                    /**
                     * @default
                     * @enum {unknown}
                     */
                    severity?: "" | "critical" | "info" | "warning";
                    /** @default [] */
                    tags?: string[];
                    /** @default  */
                    title?: string;
                    /** @default  */
                    trace?: string;
                    /** @default  */
                    trigger_pattern?: string;
                    /** @default  */
                    trigger_tool?: string;
                    /** @default  */
                    trust?: ("agent_concluded" | "external" | "imported" | "tool_output" | "user_stated") | "";
                    /** @enum {unknown} */
                    type?: "lesson";
                    /** @default  */
                    user_id?: string;
                };
            };
        };
        responses: {
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "mem_9f01e400307031dcf3e6",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync"
                     *     }
                     */
                    "application/json": components["schemas"]["Accepted"];
                };
            };
        };
    };
    get_v1_lessons_id: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example lsn_48de97ae3dbd3d0e49e9
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "lsn_48de97ae3dbd3d0e49e9",
                     *       "version": 1,
                     *       "changed_by": "ada",
                     *       "project": "shop",
                     *       "agent_id": "ada",
                     *       "user_id": "",
                     *       "title": "",
                     *       "content": "Raise the pool size before a sale",
                     *       "context": "",
                     *       "tags": [],
                     *       "confidence": 0.5,
                     *       "reinforcements": 0,
                     *       "origin": "manual",
                     *       "severity": "warning",
                     *       "trigger_tool": "Bash",
                     *       "trigger_pattern": "deploy",
                     *       "trigger_count": 0,
                     *       "triggered_at": null,
                     *       "active": true,
                     *       "derived_from": [],
                     *       "occurred_at": "2026-01-31T12:00:00Z",
                     *       "recorded_at": "2026-01-31T12:00:00Z",
                     *       "reinforced_at": "2026-01-31T12:00:00Z",
                     *       "updated_at": "2026-01-31T12:00:00Z",
                     *       "retired_at": null,
                     *       "position": "1769860800000-0",
                     *       "trust": "agent_concluded",
                     *       "quarantined": ""
                     *     }
                     */
                    "application/json": components["schemas"]["Lesson"];
                };
            };
        };
    };
    delete_v1_lessons_id: {
        parameters: {
            query?: {
                /** @description An idempotency key for the write: sending it again changes nothing. */
                event_id?: string;
                /** @description The reason for the deletion. */
                reason?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example lsn_48de97ae3dbd3d0e49e9
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "mem_9f01e400307031dcf3e6",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync"
                     *     }
                     */
                    "application/json": components["schemas"]["Accepted"];
                };
            };
        };
    };
    patch_v1_lessons_id: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example lsn_48de97ae3dbd3d0e49e9
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "severity": "critical",
                 *       "active": true
                 *     }
                 */
                "application/json": {
                    /** @default null */
                    active?: boolean | null;
                    /** @default  */
                    agent_id?: string;
                    /** @default null */
                    content?: string | null;
                    /** @default null */
                    context?: string | null;
                    /** @default  */
                    event_id?: string;
                    /** @default null */
                    expected_version?: number | null;
                    /** @default  */
                    lesson?: string;
                    /** @default {} */
                    metadata?: {
                        [key: string]: string;
                    };
                    /** @default null */
                    occurred_at?: string | null;
                    /** @default  */
                    project?: string;
                    /** @default  */
                    session_id?: string;
                    /** @default null */
                    severity?: ("" | "critical" | "info" | "warning") | null;
                    /** @default null */
                    tags?: string[] | null;
                    /** @default null */
                    title?: string | null;
                    /** @default  */
                    trace?: string;
                    /** @default null */
                    trigger_pattern?: string | null;
                    /** @default null */
                    trigger_tool?: string | null;
                    /** @default  */
                    trust?: ("agent_concluded" | "external" | "imported" | "tool_output" | "user_stated") | "";
                    /** @enum {unknown} */
                    type?: "revise_lesson";
                    /** @default  */
                    user_id?: string;
                };
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "act_a78d002ba85080345705",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync",
                     *       "version": 2,
                     *       "expires_at": null
                     *     }
                     */
                    "application/json": components["schemas"]["Applied"];
                };
            };
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "mem_9f01e400307031dcf3e6",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync"
                     *     }
                     */
                    "application/json": components["schemas"]["Accepted"];
                };
            };
        };
    };
    post_v1_lessons_id_reinforce: {
        parameters: {
            query?: {
                /** @description An idempotency key for the write: sending it again changes nothing. */
                event_id?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example lsn_48de97ae3dbd3d0e49e9
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "mem_9f01e400307031dcf3e6",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync"
                     *     }
                     */
                    "application/json": components["schemas"]["Accepted"];
                };
            };
        };
    };
    post_v1_lessons_id_trigger: {
        parameters: {
            query?: {
                /** @description An idempotency key for the write: sending it again changes nothing. */
                event_id?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example lsn_48de97ae3dbd3d0e49e9
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "mem_9f01e400307031dcf3e6",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync"
                     *     }
                     */
                    "application/json": components["schemas"]["Accepted"];
                };
            };
        };
    };
    get_v1_lessons_match: {
        parameters: {
            query: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
                /** @description Only documents by this agent. */
                agent_id?: string;
                /** @description The maximum number of results. */
                limit?: number;
                /** @description The beginning of the tool's input. */
                preview?: string;
                /**
                 * @description Only this project; an empty value selects the nameless project.
                 * @example shop
                 */
                project?: string;
                /**
                 * @description The tool about to be used.
                 * @example Bash
                 */
                tool_name: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "id": "lsn_48de97ae3dbd3d0e49e9",
                     *           "version": 1,
                     *           "changed_by": "ada",
                     *           "project": "shop",
                     *           "agent_id": "ada",
                     *           "user_id": "",
                     *           "title": "",
                     *           "content": "Raise the pool size before a sale",
                     *           "context": "",
                     *           "tags": [],
                     *           "confidence": 0.5,
                     *           "reinforcements": 0,
                     *           "origin": "manual",
                     *           "severity": "warning",
                     *           "trigger_tool": "Bash",
                     *           "trigger_pattern": "deploy",
                     *           "trigger_count": 0,
                     *           "triggered_at": null,
                     *           "active": true,
                     *           "derived_from": [],
                     *           "occurred_at": "2026-01-31T12:00:00Z",
                     *           "recorded_at": "2026-01-31T12:00:00Z",
                     *           "reinforced_at": "2026-01-31T12:00:00Z",
                     *           "updated_at": "2026-01-31T12:00:00Z",
                     *           "retired_at": null,
                     *           "position": "1769860800000-0",
                     *           "trust": "agent_concluded",
                     *           "quarantined": ""
                     *         }
                     *       ],
                     *       "claimed": [
                     *         {
                     *           "id": "act_a78d002ba85080345705",
                     *           "project": "shop",
                     *           "version": 1,
                     *           "changed_by": "ada",
                     *           "holder": "bob",
                     *           "token": "0:1769860800000-0",
                     *           "expires_at": "2026-01-31T12:05:00Z",
                     *           "paths": [
                     *             "src/refunds/**"
                     *           ],
                     *           "title": "Give refunds a key",
                     *           "description": "",
                     *           "status": "active",
                     *           "priority": 8,
                     *           "tags": [],
                     *           "edges": [],
                     *           "parent": "",
                     *           "session_id": "",
                     *           "agent_id": "ada",
                     *           "assigned_to": "bob",
                     *           "result": "",
                     *           "crystallized_into": "",
                     *           "occurred_at": "2026-01-31T12:00:00Z",
                     *           "created_at": "2026-01-31T12:00:00Z",
                     *           "updated_at": "2026-01-31T12:00:00Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["LessonMatches"];
                };
            };
        };
    };
    post_v1_lessons_search: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "query": "pool size",
                 *       "project": "shop",
                 *       "limit": 5
                 *     }
                 */
                "application/json": components["schemas"]["LessonSearch"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "id": "lsn_48de97ae3dbd3d0e49e9",
                     *           "version": 1,
                     *           "changed_by": "ada",
                     *           "project": "shop",
                     *           "agent_id": "ada",
                     *           "user_id": "",
                     *           "title": "",
                     *           "content": "Raise the pool size before a sale",
                     *           "context": "",
                     *           "tags": [],
                     *           "confidence": 0.5,
                     *           "reinforcements": 0,
                     *           "origin": "manual",
                     *           "severity": "warning",
                     *           "trigger_tool": "Bash",
                     *           "trigger_pattern": "deploy",
                     *           "trigger_count": 0,
                     *           "triggered_at": null,
                     *           "active": true,
                     *           "derived_from": [],
                     *           "occurred_at": "2026-01-31T12:00:00Z",
                     *           "recorded_at": "2026-01-31T12:00:00Z",
                     *           "reinforced_at": "2026-01-31T12:00:00Z",
                     *           "updated_at": "2026-01-31T12:00:00Z",
                     *           "retired_at": null,
                     *           "position": "1769860800000-0",
                     *           "trust": "agent_concluded",
                     *           "quarantined": "",
                     *           "score": 0.5
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Items_FoundLesson_"];
                };
            };
        };
    };
    get_v1_lessons_surest: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
                /** @description The maximum number of results. */
                limit?: number;
                /** @description Only results with at least this confidence. */
                min_confidence?: number;
                /** @description Only lessons of this origin: `manual`, `crystal`, `reflection`, `suggestion`. */
                origin?: string;
                /**
                 * @description Only this project; an empty value selects the nameless project.
                 * @example shop
                 */
                project?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "id": "lsn_48de97ae3dbd3d0e49e9",
                     *           "version": 1,
                     *           "changed_by": "ada",
                     *           "project": "shop",
                     *           "agent_id": "ada",
                     *           "user_id": "",
                     *           "title": "",
                     *           "content": "Raise the pool size before a sale",
                     *           "context": "",
                     *           "tags": [],
                     *           "confidence": 0.5,
                     *           "reinforcements": 0,
                     *           "origin": "manual",
                     *           "severity": "warning",
                     *           "trigger_tool": "Bash",
                     *           "trigger_pattern": "deploy",
                     *           "trigger_count": 0,
                     *           "triggered_at": null,
                     *           "active": true,
                     *           "derived_from": [],
                     *           "occurred_at": "2026-01-31T12:00:00Z",
                     *           "recorded_at": "2026-01-31T12:00:00Z",
                     *           "reinforced_at": "2026-01-31T12:00:00Z",
                     *           "updated_at": "2026-01-31T12:00:00Z",
                     *           "retired_at": null,
                     *           "position": "1769860800000-0",
                     *           "trust": "agent_concluded",
                     *           "quarantined": "",
                     *           "confidence_now": 0.5
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Items_SureLesson_"];
                };
            };
        };
    };
    get_v1_live: {
        parameters: {
            query?: {
                /** @description Start after this position instead of now. */
                after?: string;
                /** @description Only documents by this agent. */
                agent_id?: string;
                /** @description Only events about this kind of document (memory, lesson, action, ...) or type of memory (rule, ...). */
                kind?: string;
                /** @description End the stream after this many events; 0 for no limit. */
                limit?: number;
                /**
                 * @description Only this project; an empty value selects the nameless project.
                 * @example shop
                 */
                project?: string;
                /** @description Only this session. */
                session_id?: string;
                /** @description Only events about the document with this id. */
                subject?: string;
                /** @description Only events of these types: names and patterns such as `action.*`, separated by commas. */
                type?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example id: 0:1769860800000-0
                     *     event: memory.recorded
                     *     data: {"type": "memory.recorded"}
                     */
                    "text/event-stream": string;
                };
            };
        };
    };
    get_v1_memories: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
                /** @description The `next` of the previous page. */
                cursor?: string;
                /** @description Only the current version of each memory. */
                latest?: boolean;
                /** @description The maximum number of results. */
                limit?: number;
                /**
                 * @description Only this project; an empty value selects the nameless project.
                 * @example shop
                 */
                project?: string;
                /** @description Only documents recorded at or after this time. */
                recorded_since?: string;
                /** @description Only documents recorded before this time. */
                recorded_until?: string;
                /** @description Only documents whose event time is at or after this time. */
                since?: string;
                /** @description Only documents whose event time is before this time. */
                until?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "id": "mem_9f01e400307031dcf3e6",
                     *           "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *           "project": "shop",
                     *           "session_id": "",
                     *           "agent_id": "ada",
                     *           "user_id": "",
                     *           "content": "We deploy on Tuesdays, never on Fridays.",
                     *           "title": "We deploy on Tuesdays, never on Fridays.",
                     *           "memory_type": "semantic",
                     *           "purpose": "information",
                     *           "tags": [
                     *             "deploy"
                     *           ],
                     *           "concepts": [
                     *             "deploy"
                     *           ],
                     *           "files": [],
                     *           "references": [],
                     *           "metadata": {},
                     *           "importance": 5,
                     *           "visibility": "public",
                     *           "shared_with": [],
                     *           "owner": "ada",
                     *           "forget_after": null,
                     *           "version": 1,
                     *           "parent_id": "",
                     *           "is_latest": true,
                     *           "superseded_at": null,
                     *           "superseded_by": "",
                     *           "keep_duplicates": false,
                     *           "derived_from": [],
                     *           "condensed": [],
                     *           "model": "",
                     *           "prompt_version": "",
                     *           "confirmations": 0,
                     *           "confirmed_at": null,
                     *           "verdicts": [],
                     *           "updated_at": "2026-01-31T12:00:00Z",
                     *           "occurred_at": "2026-01-31T12:00:00Z",
                     *           "recorded_at": "2026-01-31T12:00:00Z",
                     *           "position": "1769860800000-0",
                     *           "source": "native",
                     *           "trust": "agent_concluded",
                     *           "quarantined": "",
                     *           "valid_until": null,
                     *           "mandatory": false
                     *         }
                     *       ],
                     *       "next": null
                     *     }
                     */
                    "application/json": components["schemas"]["Page_Memory_"];
                };
            };
        };
    };
    post_v1_memories: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "project": "shop",
                 *       "content": "We deploy on Tuesdays, never on Fridays.",
                 *       "tags": [
                 *         "deploy"
                 *       ],
                 *       "importance": 7
                 *     }
                 */
                "application/json": {
                    /** @default  */
                    agent_id?: string;
                    /** @default [] */
                    concepts?: string[];
                    content: string;
                    /** @default [] */
                    derived_from?: string[];
                    /** @default  */
                    event_id?: string;
                    /** @default [] */
                    files?: string[];
                    /** @default 5 */
                    importance?: number;
                    /** @default false */
                    keep_duplicates?: boolean;
                    /** @default false */
                    mandatory?: boolean;
                    /**
                     * @default semantic
                     * @enum {unknown}
                     */
                    memory_type?: "episodic" | "procedural" | "rule" | "semantic";
                    /** @default {} */
                    metadata?: {
                        [key: string]: string;
                    };
                    /** @default null */
                    occurred_at?: string | null;
                    /** @default  */
                    owner?: string;
                    /** @default  */
                    project?: string;
                    /**
                     * @default information
                     * @enum {unknown}
                     */
                    purpose?: "information" | "question" | "request";
                    /** @default [] */
                    references?: string[];
                    /** @default  */
                    session_id?: string;
                    /** @default [] */
                    shared_with?: string[];
                    /** @default [] */
                    tags?: string[];
                    /** @default  */
                    title?: string;
                    /** @default  */
                    trace?: string;
                    /** @default  */
                    trust?: ("agent_concluded" | "external" | "imported" | "tool_output" | "user_stated") | "";
                    /** @default null */
                    ttl_days?: number | null;
                    /** @enum {unknown} */
                    type?: "remember";
                    /** @default  */
                    user_id?: string;
                    /** @default null */
                    valid_until?: string | null;
                    /**
                     * @default public
                     * @enum {unknown}
                     */
                    visibility?: "private" | "public" | "shared";
                };
            };
        };
        responses: {
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "mem_9f01e400307031dcf3e6",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync",
                     *       "superseded": [],
                     *       "similar": [
                     *         "mem_5c1b2a908d7e6f3a4b10"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["RememberAnswer"];
                };
            };
        };
    };
    get_v1_memories_id: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example mem_9f01e400307031dcf3e6
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "mem_9f01e400307031dcf3e6",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "project": "shop",
                     *       "session_id": "",
                     *       "agent_id": "ada",
                     *       "user_id": "",
                     *       "content": "We deploy on Tuesdays, never on Fridays.",
                     *       "title": "We deploy on Tuesdays, never on Fridays.",
                     *       "memory_type": "semantic",
                     *       "purpose": "information",
                     *       "tags": [
                     *         "deploy"
                     *       ],
                     *       "concepts": [
                     *         "deploy"
                     *       ],
                     *       "files": [],
                     *       "references": [],
                     *       "metadata": {},
                     *       "importance": 5,
                     *       "visibility": "public",
                     *       "shared_with": [],
                     *       "owner": "ada",
                     *       "forget_after": null,
                     *       "version": 1,
                     *       "parent_id": "",
                     *       "is_latest": true,
                     *       "superseded_at": null,
                     *       "superseded_by": "",
                     *       "keep_duplicates": false,
                     *       "derived_from": [],
                     *       "condensed": [],
                     *       "model": "",
                     *       "prompt_version": "",
                     *       "confirmations": 0,
                     *       "confirmed_at": null,
                     *       "verdicts": [],
                     *       "updated_at": "2026-01-31T12:00:00Z",
                     *       "occurred_at": "2026-01-31T12:00:00Z",
                     *       "recorded_at": "2026-01-31T12:00:00Z",
                     *       "position": "1769860800000-0",
                     *       "source": "native",
                     *       "trust": "agent_concluded",
                     *       "quarantined": "",
                     *       "valid_until": null,
                     *       "mandatory": false
                     *     }
                     */
                    "application/json": components["schemas"]["Memory"];
                };
            };
        };
    };
    delete_v1_memories_id: {
        parameters: {
            query?: {
                /** @description An idempotency key for the write: sending it again changes nothing. */
                event_id?: string;
                /** @description The reason for the deletion. */
                reason?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example mem_9f01e400307031dcf3e6
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "mem_9f01e400307031dcf3e6",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync"
                     *     }
                     */
                    "application/json": components["schemas"]["Accepted"];
                };
            };
        };
    };
    patch_v1_memories_id: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example mem_9f01e400307031dcf3e6
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "content": "We deploy on Wednesdays.",
                 *       "visibility": "shared",
                 *       "shared_with": [
                 *         "bob"
                 *       ],
                 *       "agent_id": "ada"
                 *     }
                 */
                "application/json": components["schemas"]["MemoryChanges"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "act_a78d002ba85080345705",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync",
                     *       "version": 2,
                     *       "expires_at": null
                     *     }
                     */
                    "application/json": components["schemas"]["Applied"];
                };
            };
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "mem_9f01e400307031dcf3e6",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync"
                     *     }
                     */
                    "application/json": components["schemas"]["Accepted"];
                };
            };
        };
    };
    get_v1_memories_id_history: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example mem_9f01e400307031dcf3e6
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "id": "mem_9f01e400307031dcf3e6",
                     *           "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *           "project": "shop",
                     *           "session_id": "",
                     *           "agent_id": "ada",
                     *           "user_id": "",
                     *           "content": "We deploy on Tuesdays, never on Fridays.",
                     *           "title": "We deploy on Tuesdays, never on Fridays.",
                     *           "memory_type": "semantic",
                     *           "purpose": "information",
                     *           "tags": [
                     *             "deploy"
                     *           ],
                     *           "concepts": [
                     *             "deploy"
                     *           ],
                     *           "files": [],
                     *           "references": [],
                     *           "metadata": {},
                     *           "importance": 5,
                     *           "visibility": "public",
                     *           "shared_with": [],
                     *           "owner": "ada",
                     *           "forget_after": null,
                     *           "version": 1,
                     *           "parent_id": "",
                     *           "is_latest": true,
                     *           "superseded_at": null,
                     *           "superseded_by": "",
                     *           "keep_duplicates": false,
                     *           "derived_from": [],
                     *           "condensed": [],
                     *           "model": "",
                     *           "prompt_version": "",
                     *           "confirmations": 0,
                     *           "confirmed_at": null,
                     *           "verdicts": [],
                     *           "updated_at": "2026-01-31T12:00:00Z",
                     *           "occurred_at": "2026-01-31T12:00:00Z",
                     *           "recorded_at": "2026-01-31T12:00:00Z",
                     *           "position": "1769860800000-0",
                     *           "source": "native",
                     *           "trust": "agent_concluded",
                     *           "quarantined": "",
                     *           "valid_until": null,
                     *           "mandatory": false
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Items_Memory_"];
                };
            };
        };
    };
    post_v1_observations: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "project": "shop",
                 *       "session_id": "s1",
                 *       "agent_id": "ada",
                 *       "event_id": "my-1",
                 *       "content": "Checkout times out when Redis restarts.",
                 *       "data": {
                 *         "tool_name": "Bash",
                 *         "tool_input": {
                 *           "command": "make test"
                 *         },
                 *         "tool_output": "1 failed"
                 *       }
                 *     }
                 */
                "application/json": {
                    /** @default  */
                    agent_id?: string;
                    /** @default  */
                    content?: string;
                    /** @default {} */
                    data?: Record<string, unknown>;
                    /** @default  */
                    event_id?: string;
                    /** @default  */
                    kind?: string;
                    /** @default {} */
                    metadata?: {
                        [key: string]: string;
                    };
                    /** @default null */
                    occurred_at?: string | null;
                    /** @default  */
                    project?: string;
                    /** @default  */
                    session_id?: string;
                    /** @default  */
                    trace?: string;
                    /** @default  */
                    trust?: ("agent_concluded" | "external" | "imported" | "tool_output" | "user_stated") | "";
                    /** @enum {unknown} */
                    type?: "observe";
                    /** @default  */
                    user_id?: string;
                };
            };
        };
        responses: {
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "mem_9f01e400307031dcf3e6",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync"
                     *     }
                     */
                    "application/json": components["schemas"]["Accepted"];
                };
            };
        };
    };
    get_v1_observations_id: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example obs_edc5b0f0a6708b3512be
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "obs_edc5b0f0a6708b3512be",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "project": "shop",
                     *       "session_id": "s1",
                     *       "agent_id": "ada",
                     *       "user_id": "",
                     *       "kind": "command_run",
                     *       "content": "Checkout times out when Redis restarts; the client pool does not reconnect.",
                     *       "data": {
                     *         "tool_name": "Bash",
                     *         "tool_input": {
                     *           "command": "make test"
                     *         },
                     *         "tool_output": "1 failed"
                     *       },
                     *       "metadata": {},
                     *       "turn": "tool",
                     *       "words": "",
                     *       "title": "Bash",
                     *       "subtitle": "{\"command\":\"make test\"}",
                     *       "facts": [],
                     *       "narrative": "{\"command\":\"make test\"} | 1 failed",
                     *       "concepts": [],
                     *       "files": [],
                     *       "importance": 5,
                     *       "confidence": 0.3,
                     *       "occurred_at": "2026-01-31T12:00:00Z",
                     *       "recorded_at": "2026-01-31T12:00:00Z",
                     *       "position": "1769860800000-0",
                     *       "source": "native",
                     *       "model": "",
                     *       "prompt_version": "",
                     *       "role": "",
                     *       "trust": "tool_output",
                     *       "quarantined": "",
                     *       "headline": "Checkout times out when Redis restarts; the client pool does not reconnect."
                     *     }
                     */
                    "application/json": components["schemas"]["Observation"];
                };
            };
        };
    };
    delete_v1_observations_id: {
        parameters: {
            query?: {
                /** @description An idempotency key for the write: sending it again changes nothing. */
                event_id?: string;
                /** @description The reason for the deletion. */
                reason?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example obs_edc5b0f0a6708b3512be
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "mem_9f01e400307031dcf3e6",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync"
                     *     }
                     */
                    "application/json": components["schemas"]["Accepted"];
                };
            };
        };
    };
    get_v1_projects: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
                /** @description The `next` of the previous page. */
                cursor?: string;
                /** @description The maximum number of results. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "project": "shop",
                     *           "documents": 6
                     *         }
                     *       ],
                     *       "next": null
                     *     }
                     */
                    "application/json": components["schemas"]["Page_ProjectCount_"];
                };
            };
        };
    };
    post_v1_recall: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "query": "when do we deploy?",
                 *       "project": "shop",
                 *       "limit": 3
                 *     }
                 */
                "application/json": components["schemas"]["RecallRequest"];
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "results": [
                     *         {
                     *           "id": "mem_9f01e400307031dcf3e6",
                     *           "kind": "memory",
                     *           "score": 1,
                     *           "title": "We deploy on Tuesdays, never on Fridays.",
                     *           "snippet": "We deploy on Tuesdays, never on Fridays.",
                     *           "content": "We deploy on Tuesdays, never on Fridays.",
                     *           "session_id": null,
                     *           "agent_id": "ada",
                     *           "project": "shop",
                     *           "occurred_at": "2026-01-31T12:00:00Z",
                     *           "metadata": {},
                     *           "confidence": 0.93
                     *         }
                     *       ],
                     *       "confidence": 0.93,
                     *       "certainty": "recorded",
                     *       "took_ms": 4.1,
                     *       "lag": {},
                     *       "degraded": []
                     *     }
                     */
                    "application/json": components["schemas"]["RecallAnswer"];
                };
            };
        };
    };
    get_v1_sessions: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
                /** @description The `next` of the previous page. */
                cursor?: string;
                /** @description The maximum number of results. */
                limit?: number;
                /**
                 * @description Only this project; an empty value selects the nameless project.
                 * @example shop
                 */
                project?: string;
                /** @description Only documents recorded at or after this time. */
                recorded_since?: string;
                /** @description Only documents recorded before this time. */
                recorded_until?: string;
                /** @description Only documents whose event time is at or after this time. */
                since?: string;
                /** @description Only documents whose event time is before this time. */
                until?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "id": "s1",
                     *           "project": "shop",
                     *           "agent_id": "ada",
                     *           "user_id": "",
                     *           "agent_type": "",
                     *           "title": "Fix the checkout",
                     *           "first_prompt": "",
                     *           "cwd": "",
                     *           "status": "active",
                     *           "started_at": "2026-01-31T12:00:00Z",
                     *           "updated_at": "2026-01-31T12:00:00Z",
                     *           "ended_at": null,
                     *           "observation_count": 1,
                     *           "worked": true,
                     *           "summarised": 0,
                     *           "retired": false,
                     *           "retired_observations": 0,
                     *           "retired_at": null
                     *         }
                     *       ],
                     *       "next": null
                     *     }
                     */
                    "application/json": components["schemas"]["Page_Session_"];
                };
            };
        };
    };
    post_v1_sessions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "project": "shop",
                 *       "session_id": "s1",
                 *       "status": "started",
                 *       "title": "Fix the checkout"
                 *     }
                 */
                "application/json": {
                    /** @default  */
                    agent_id?: string;
                    /** @default  */
                    agent_type?: string;
                    /** @default  */
                    cwd?: string;
                    /** @default  */
                    event_id?: string;
                    /** @default {} */
                    metadata?: {
                        [key: string]: string;
                    };
                    /** @default null */
                    occurred_at?: string | null;
                    /**
                     * @default completed
                     * @enum {unknown}
                     */
                    outcome?: "completed" | "failed";
                    /** @default  */
                    project?: string;
                    /** @default  */
                    reason?: string;
                    /** @default  */
                    session_id?: string;
                    /** @enum {unknown} */
                    status: "ended" | "started";
                    /** @default  */
                    title?: string;
                    /** @default  */
                    trace?: string;
                    /** @default  */
                    trust?: ("agent_concluded" | "external" | "imported" | "tool_output" | "user_stated") | "";
                    /** @enum {unknown} */
                    type?: "session";
                    /** @default  */
                    user_id?: string;
                };
            };
        };
        responses: {
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "mem_9f01e400307031dcf3e6",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync"
                     *     }
                     */
                    "application/json": components["schemas"]["Accepted"];
                };
            };
        };
    };
    get_v1_sessions_id: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
                /**
                 * @description Only this project; an empty value selects the nameless project.
                 * @example shop
                 */
                project?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example s1
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "s1",
                     *       "project": "shop",
                     *       "agent_id": "ada",
                     *       "user_id": "",
                     *       "agent_type": "",
                     *       "title": "Fix the checkout",
                     *       "first_prompt": "",
                     *       "cwd": "",
                     *       "status": "active",
                     *       "started_at": "2026-01-31T12:00:00Z",
                     *       "updated_at": "2026-01-31T12:00:00Z",
                     *       "ended_at": null,
                     *       "observation_count": 1,
                     *       "worked": true,
                     *       "summarised": 0,
                     *       "retired": false,
                     *       "retired_observations": 0,
                     *       "retired_at": null
                     *     }
                     */
                    "application/json": components["schemas"]["Session"];
                };
            };
        };
    };
    delete_v1_sessions_id: {
        parameters: {
            query?: {
                /** @description An idempotency key for the write: sending it again changes nothing. */
                event_id?: string;
                /**
                 * @description Only this project; an empty value selects the nameless project.
                 * @example shop
                 */
                project?: string;
                /** @description The reason for the deletion. */
                reason?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example s1
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "documents": {
                     *         "session": 1
                     *       },
                     *       "position": "1:1769860800000-0",
                     *       "durability": "fsync"
                     *     }
                     */
                    "application/json": components["schemas"]["Forgotten"];
                };
            };
        };
    };
    get_v1_sessions_id_observations: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
                /** @description The `next` of the previous page. */
                cursor?: string;
                /** @description The maximum number of results. */
                limit?: number;
                /**
                 * @description Only this project; an empty value selects the nameless project.
                 * @example shop
                 */
                project?: string;
                /** @description Only documents recorded at or after this time. */
                recorded_since?: string;
                /** @description Only documents recorded before this time. */
                recorded_until?: string;
                /** @description Only documents whose event time is at or after this time. */
                since?: string;
                /** @description Only documents whose event time is before this time. */
                until?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example s1
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "id": "obs_edc5b0f0a6708b3512be",
                     *           "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *           "project": "shop",
                     *           "session_id": "s1",
                     *           "agent_id": "ada",
                     *           "user_id": "",
                     *           "kind": "command_run",
                     *           "content": "Checkout times out when Redis restarts; the client pool does not reconnect.",
                     *           "data": {
                     *             "tool_name": "Bash",
                     *             "tool_input": {
                     *               "command": "make test"
                     *             },
                     *             "tool_output": "1 failed"
                     *           },
                     *           "metadata": {},
                     *           "turn": "tool",
                     *           "words": "",
                     *           "title": "Bash",
                     *           "subtitle": "{\"command\":\"make test\"}",
                     *           "facts": [],
                     *           "narrative": "{\"command\":\"make test\"} | 1 failed",
                     *           "concepts": [],
                     *           "files": [],
                     *           "importance": 5,
                     *           "confidence": 0.3,
                     *           "occurred_at": "2026-01-31T12:00:00Z",
                     *           "recorded_at": "2026-01-31T12:00:00Z",
                     *           "position": "1769860800000-0",
                     *           "source": "native",
                     *           "model": "",
                     *           "prompt_version": "",
                     *           "role": "",
                     *           "trust": "tool_output",
                     *           "quarantined": "",
                     *           "headline": "Checkout times out when Redis restarts; the client pool does not reconnect."
                     *         }
                     *       ],
                     *       "next": null
                     *     }
                     */
                    "application/json": components["schemas"]["SomeRetired_Observation_"];
                };
            };
        };
    };
    post_v1_sessions_id_reflect: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example s1
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "project": "shop",
                 *       "max_observations": 50
                 *     }
                 */
                "application/json": components["schemas"]["SessionReflectRequest"];
            };
        };
        responses: {
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "slots_changed": 1,
                     *       "observations": 1,
                     *       "position": "0:1769860800000-0"
                     *     }
                     */
                    "application/json": components["schemas"]["SlotsMade"];
                };
            };
        };
    };
    get_v1_sessions_id_story: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
                /**
                 * @description Only this project; an empty value selects the nameless project.
                 * @example shop
                 */
                project?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example s1
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "decisions": [
                     *         "We decided to recreate the client pool after each restart."
                     *       ],
                     *       "remaining": [
                     *         "The admin page still opens its own pool."
                     *       ],
                     *       "exchanges": [
                     *         {
                     *           "request": "Fix the checkout",
                     *           "answer": "The checkout reconnects after a restart of Redis."
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["SessionStory"];
                };
            };
        };
    };
    get_v1_sessions_id_summary: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
                /**
                 * @description Only this project; an empty value selects the nameless project.
                 * @example shop
                 */
                project?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example s1
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "sum_aad1ae0834d47325e5e5",
                     *       "project": "shop",
                     *       "session_id": "s1",
                     *       "agent_id": "ada",
                     *       "user_id": "",
                     *       "title": "Fix the checkout",
                     *       "narrative": "Checkout times out when Redis restarts; the client pool does not reconnect.",
                     *       "decisions": [],
                     *       "files": [],
                     *       "concepts": [],
                     *       "observation_count": 1,
                     *       "model": "",
                     *       "prompt_version": "",
                     *       "occurred_at": "2026-01-31T12:00:00Z",
                     *       "recorded_at": "2026-01-31T12:00:00Z",
                     *       "position": "1769860800000-0",
                     *       "remaining": [],
                     *       "trust": "agent_concluded",
                     *       "told_by_tools": []
                     *     }
                     */
                    "application/json": components["schemas"]["Summary"];
                };
            };
        };
    };
    post_v1_sessions_id_summary: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The document's id.
                 * @example s1
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "project": "shop"
                 *     }
                 */
                "application/json": components["schemas"]["InSession"];
            };
        };
        responses: {
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "summary": {
                     *         "title": "Fix the checkout",
                     *         "narrative": "Checkout times out when Redis restarts; the client pool does not reconnect.",
                     *         "decisions": [],
                     *         "files": [],
                     *         "concepts": [],
                     *         "observation_count": 1,
                     *         "remaining": []
                     *       },
                     *       "model": "",
                     *       "fell_back": "",
                     *       "position": "1:1769860800000-0"
                     *     }
                     */
                    "application/json": components["schemas"]["SummaryMade"];
                };
            };
        };
    };
    get_v1_slots: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
                /**
                 * @description Only this project; an empty value selects the nameless project.
                 * @example shop
                 */
                project?: string;
                /** @description Only documents recorded at or after this time. */
                recorded_since?: string;
                /** @description Only documents recorded before this time. */
                recorded_until?: string;
                /** @description Only documents whose event time is at or after this time. */
                since?: string;
                /** @description Only documents whose event time is before this time. */
                until?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "id": "slot_cc335f23bbc32587a1dd",
                     *           "version": 1,
                     *           "label": "project_context",
                     *           "scope": "project",
                     *           "project": "shop",
                     *           "content": "The shop's checkout.",
                     *           "size": 20,
                     *           "size_limit": 3000,
                     *           "description": "",
                     *           "pinned": true,
                     *           "read_only": false,
                     *           "agent_id": "ada",
                     *           "created_at": "2026-01-31T12:00:00Z",
                     *           "occurred_at": "2026-01-31T12:00:00Z",
                     *           "updated_at": "2026-01-31T12:00:00Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Items_Slot_"];
                };
            };
        };
    };
    post_v1_slots: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "project": "shop",
                 *       "label": "project_context",
                 *       "content": "The shop's checkout.",
                 *       "pinned": true
                 *     }
                 */
                "application/json": {
                    /** @default  */
                    agent_id?: string;
                    /** @default false */
                    append?: boolean;
                    content: string;
                    /** @default null */
                    description?: string | null;
                    /** @default  */
                    event_id?: string;
                    /** @default null */
                    expected_version?: number | null;
                    label: string;
                    /** @default {} */
                    metadata?: {
                        [key: string]: string;
                    };
                    /** @default null */
                    occurred_at?: string | null;
                    /** @default true */
                    overwrite?: boolean;
                    /** @default null */
                    pinned?: boolean | null;
                    /** @default  */
                    project?: string;
                    /** @default null */
                    read_only?: boolean | null;
                    /**
                     * @default project
                     * @enum {unknown}
                     */
                    scope?: "global" | "project";
                    /** @default  */
                    session_id?: string;
                    /** @default null */
                    size_limit?: number | null;
                    /** @default  */
                    trace?: string;
                    /** @default  */
                    trust?: ("agent_concluded" | "external" | "imported" | "tool_output" | "user_stated") | "";
                    /** @enum {unknown} */
                    type?: "slot";
                    /** @default  */
                    user_id?: string;
                };
            };
        };
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "act_a78d002ba85080345705",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync",
                     *       "version": 2,
                     *       "expires_at": null
                     *     }
                     */
                    "application/json": components["schemas"]["Applied"];
                };
            };
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "mem_9f01e400307031dcf3e6",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync"
                     *     }
                     */
                    "application/json": components["schemas"]["Accepted"];
                };
            };
        };
    };
    get_v1_slots_label: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
                /**
                 * @description Only this project; an empty value selects the nameless project.
                 * @example shop
                 */
                project?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The slot's label.
                 * @example project_context
                 */
                label: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "slot_cc335f23bbc32587a1dd",
                     *       "version": 1,
                     *       "label": "project_context",
                     *       "scope": "project",
                     *       "project": "shop",
                     *       "content": "The shop's checkout.",
                     *       "size": 20,
                     *       "size_limit": 3000,
                     *       "description": "",
                     *       "pinned": true,
                     *       "read_only": false,
                     *       "agent_id": "ada",
                     *       "created_at": "2026-01-31T12:00:00Z",
                     *       "occurred_at": "2026-01-31T12:00:00Z",
                     *       "updated_at": "2026-01-31T12:00:00Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Slot"];
                };
            };
        };
    };
    delete_v1_slots_label: {
        parameters: {
            query?: {
                /** @description Apply the change only to this version. */
                expected_version?: number;
                /**
                 * @description Only this project; an empty value selects the nameless project.
                 * @example shop
                 */
                project?: string;
                /** @description `project` for a slot of the project, `global` for a global slot. */
                scope?: "global" | "project";
            };
            header?: never;
            path: {
                /**
                 * @description The slot's label.
                 * @example project_context
                 */
                label: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "act_a78d002ba85080345705",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync",
                     *       "version": 2,
                     *       "expires_at": null
                     *     }
                     */
                    "application/json": components["schemas"]["Applied"];
                };
            };
            /** @description Done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "mem_9f01e400307031dcf3e6",
                     *       "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *       "position": "0:1769860800000-0",
                     *       "duplicate": false,
                     *       "durability": "fsync"
                     *     }
                     */
                    "application/json": components["schemas"]["Accepted"];
                };
            };
        };
    };
    get_v1_timeline: {
        parameters: {
            query?: {
                /** @description The `position` of a write. The read waits up to a second until that write is visible. */
                after?: string;
                /** @description The `next` of the previous page. */
                cursor?: string;
                /** @description The maximum number of results. */
                limit?: number;
                /**
                 * @description Only this project; an empty value selects the nameless project.
                 * @example shop
                 */
                project?: string;
                /** @description Only documents recorded at or after this time. */
                recorded_since?: string;
                /** @description Only documents recorded before this time. */
                recorded_until?: string;
                /** @description Only documents whose event time is at or after this time. */
                since?: string;
                /** @description Only documents whose event time is before this time. */
                until?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "items": [
                     *         {
                     *           "id": "obs_edc5b0f0a6708b3512be",
                     *           "event_id": "01M86G37QABSREYRWQMKFM3F1R",
                     *           "project": "shop",
                     *           "session_id": "s1",
                     *           "agent_id": "ada",
                     *           "user_id": "",
                     *           "kind": "command_run",
                     *           "content": "Checkout times out when Redis restarts; the client pool does not reconnect.",
                     *           "data": {
                     *             "tool_name": "Bash",
                     *             "tool_input": {
                     *               "command": "make test"
                     *             },
                     *             "tool_output": "1 failed"
                     *           },
                     *           "metadata": {},
                     *           "turn": "tool",
                     *           "words": "",
                     *           "title": "Bash",
                     *           "subtitle": "{\"command\":\"make test\"}",
                     *           "facts": [],
                     *           "narrative": "{\"command\":\"make test\"} | 1 failed",
                     *           "concepts": [],
                     *           "files": [],
                     *           "importance": 5,
                     *           "confidence": 0.3,
                     *           "occurred_at": "2026-01-31T12:00:00Z",
                     *           "recorded_at": "2026-01-31T12:00:00Z",
                     *           "position": "1769860800000-0",
                     *           "source": "native",
                     *           "model": "",
                     *           "prompt_version": "",
                     *           "role": "",
                     *           "trust": "tool_output",
                     *           "quarantined": "",
                     *           "headline": "Checkout times out when Redis restarts; the client pool does not reconnect."
                     *         }
                     *       ],
                     *       "next": null
                     *     }
                     */
                    "application/json": components["schemas"]["SomeRetired_Observation_"];
                };
            };
        };
    };
}
