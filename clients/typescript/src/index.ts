/** Client of mnemolog, shared memory for fleets of AI agents. */

export type * from "./answers.ts";
export type { MnemologOptions } from "./client.ts";
export { Mnemolog } from "./client.ts";
export { Emitter } from "./emitter.ts";
export {
  AlreadyClaimed, Conflict, EmitterClosed, EmitterError, EmitterFull, Forbidden, InvalidRequest, MnemologError,
  NotDelivered, NotFound, Overloaded, ProjectionBehind, ServerFault, SpoolInUse, StaleToken, TooLarge, Unauthorized,
  Unavailable, Unreachable, VersionConflict,
} from "./errors.ts";
export type {
  ActionChanges, ClaimOptions, Command, ContextOptions, LessonChanges, MemoryChanges, OfAction, OfLesson, OfMemory, OfObservation,
  OfSlot, RecallOptions, SessionEnd, SessionStart,
} from "./fields.ts";
export type { Listed } from "./nouns.ts";
export type { EmitterOptions, EmitterStats } from "./outbox.ts";
export { Position } from "./position.ts";
export type { RetryOptions } from "./retry.ts";
export { Retry } from "./retry.ts";
