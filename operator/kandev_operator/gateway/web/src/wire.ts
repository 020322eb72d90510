// Written by `python -m kandev_operator.gateway.pages.wiretypes`. Change the models, not this file.

export interface AgentctlMoment {
  session_id: string;
  task_id: string;
  version: number;
  agent_execution_id?: string | null;
  error_message?: string | null;
  worktree_path?: string | null;
  worktree_branch?: string | null;
}

export interface Cancel {
  session_id: string;
  task_id?: string | null;
  prompt_id?: string | null;
}

export interface Commit {
  id: string;
  parents: readonly (string)[];
  author_name: string;
  author_email: string;
  authored_at: string;
  committer_name: string;
  committer_email: string;
  committed_at: string;
  subject: string;
  body?: string;
  body_truncated?: boolean;
}

export interface Entry {
  path: string;
  name: string;
  kind: FileKind;
  size?: number | null;
  mode?: string | null;
  modified_at?: string | null;
  target?: string | null;
  ignored?: boolean | null;
}

export interface ErrorBody {
  code: string;
  message: string;
  details?: Record<string, unknown>;
}

export interface FileDiff {
  path: string;
  old_path?: string | null;
  change: Change;
  binary?: boolean;
  submodule?: boolean;
  additions?: number | null;
  deletions?: number | null;
  patch?: string | null;
  lossy?: boolean;
  omitted?: "binary" | "unmerged" | "file_limit" | "limit" | "time" | null;
}

export interface FileRead {
  session_id: string;
  task_id?: string | null;
  path: string;
}

export interface FileSearch {
  session_id: string;
  task_id?: string | null;
  query: string;
  what?: "names" | "content";
}

export interface FileTree {
  session_id: string;
  task_id?: string | null;
  path?: string;
  after?: string | null;
}

export interface FileWrite {
  session_id: string;
  task_id?: string | null;
  path: string;
  etag?: string | null;
  encoding?: "utf-8" | "base64";
  content: string;
}

export interface Frame {
  id: string;
  type: FrameType;
  action: string;
  payload?: Record<string, unknown>;
  timestamp?: string | null;
}

export interface GitDiff {
  repo: string;
  files: readonly (FileDiff)[];
  total: number;
  truncated?: "files" | "limit" | "time" | null;
}

export interface GitLog {
  repo: string;
  commits: readonly (Commit)[];
  next?: string | null;
}

export interface GitStatus {
  repo: string;
  head?: string | null;
  branch?: string | null;
  upstream?: string | null;
  ahead?: number | null;
  behind?: number | null;
  shallow?: boolean;
  in_progress?: InProgress | null;
  counts: StatusCounts;
  total: number;
  entries: readonly (StatusEntry)[];
  truncated?: "limit" | "time" | null;
}

export interface HistoryState {
  session_id: string;
  task_id: string;
  late: boolean;
  following: boolean;
}

export interface Listing {
  namespace?: string | null;
}

export interface LiveWords {
  session_id: string;
  task_id: string;
  message_id: string;
  author: string;
  kind: string;
  turn_id?: string | null;
  offset: number;
  text: string;
}

export interface Match {
  path: string;
  line?: number | null;
  column?: number | null;
  text?: string | null;
}

export interface Message {
  message_id: string;
  journal_id: string;
  seq: number;
  last_seq: number;
  author: string;
  kind: string;
  turn_id?: string | null;
  execution_id?: string | null;
  at: string;
  text?: string;
  content?: Record<string, unknown> | null;
}

export interface MessageChange {
  session_id: string;
  task_id: string;
  cursor: string;
  message_id: string;
  journal_id: string;
  seq: number;
  author: string;
  kind: string;
  turn_id?: string | null;
  execution_id?: string | null;
  at: string;
  offset?: number;
  text?: string;
  content?: Record<string, unknown> | null;
}

export interface MessageList {
  session_id: string;
  task_id?: string | null;
  before?: string | null;
  limit?: number;
}

export interface MessagePage {
  session_id: string;
  messages?: readonly (Message)[];
  before?: string | null;
  cursor?: string | null;
  late?: boolean;
}

export interface Missing {
  session_id: string;
  task_id: string;
  journal_id: string;
  from_seq: number;
  to_seq: number;
}

export interface OfRepository {
  session_id: string;
  task_id?: string | null;
  repo?: string;
  staged?: boolean;
  path?: string | null;
}

export interface OfSession {
  session_id: string;
  task_id?: string | null;
}

export interface OfShell {
  session_id: string;
  task_id?: string | null;
  shell_id: string;
}

export interface PermissionNotice {
  session_id: string;
  task_id: string;
  cursor?: string | null;
  permission_id: string;
  turn_id?: string | null;
  title?: string;
  tool_kind?: string | null;
  options?: readonly (PermissionOption)[];
  requested_at?: string | null;
  option_id?: string | null;
  by?: string | null;
}

export interface PermissionOption {
  option_id: string;
  name: string;
  kind: string;
}

export interface PermissionRespond {
  session_id: string;
  task_id?: string | null;
  permission_id: string;
  option_id?: string | null;
}

export interface ProfileView {
  agent_profile_id: string;
  namespace: string;
  name: string;
  display_name?: string | null;
  supports_session_resume?: boolean;
  supports_workspace_only?: boolean;
}

export interface Prompt {
  session_id: string;
  task_id?: string | null;
  prompt_id: string;
  text: string;
}

export interface SearchAnswer {
  matches: readonly (Match)[];
  searched: number;
  skipped_binary?: number;
  skipped_large?: number;
  truncated?: "limit" | "time" | null;
}

export interface SessionCreate {
  request_id: string;
  namespace: string;
  task_name: string;
  agent_profile_name: string;
  prompt?: string | null;
  executor_name?: string | null;
  template?: Record<string, unknown> | null;
  branch?: string | null;
  resume_policy?: "Auto" | "OnRequest" | "Never";
}

export interface SessionGone {
  session_id: string;
  task_id: string;
}

export interface SessionView {
  session_id: string;
  task_id: string;
  version: number;
  namespace: string;
  name: string;
  task_name: string;
  agent_profile_id?: string | null;
  agent_profile_name: string;
  operating_mode: string;
  state: string;
  executor_status?: string | null;
  runtime?: string | null;
  agent_execution_id?: string | null;
  is_agent_running?: boolean | null;
  is_resumable?: boolean | null;
  needs_resume?: boolean | null;
  resume_reason?: string | null;
  resume_policy: string;
  error_message?: string | null;
  worktree_path?: string | null;
  worktree_branch?: string | null;
  suspended?: string | null;
  finished?: boolean;
  attempt?: number | null;
  next_attempt_at?: string | null;
  turn_prompt_id?: string | null;
  awaiting_permission?: boolean | null;
  interrupted_prompt_id?: string | null;
  created_at: string;
  deleting?: boolean;
  watch_stale?: boolean;
}

export interface SessionWish {
  session_id: string;
  task_id?: string | null;
  request_id: string;
}

export interface ShellExit {
  session_id: string;
  task_id: string;
  shell_id: string;
  reason: string;
  code?: number | null;
  signal?: string | null;
}

export interface ShellInput {
  session_id: string;
  task_id?: string | null;
  shell_id: string;
  data: string;
}

export interface ShellOutput {
  session_id: string;
  task_id: string;
  shell_id: string;
  instance_id: string;
  cursor: number;
  data: string;
}

export interface ShellResize {
  session_id: string;
  task_id?: string | null;
  shell_id: string;
  cols: number;
  rows: number;
}

export interface ShellSubscribe {
  session_id: string;
  task_id?: string | null;
  name?: string;
  cols?: number;
  rows?: number;
  instance_id?: string | null;
  shell_id?: string | null;
  cursor?: number;
}

export interface StateChanged {
  session_id: string;
  task_id: string;
  version: number;
  old_state: string;
  new_state: string;
  error_message?: string | null;
}

export interface StatusCounts {
  staged?: number;
  unstaged?: number;
  untracked?: number;
  unmerged?: number;
}

export interface StatusEntry {
  path: string;
  old_path?: string | null;
  index?: Change | null;
  worktree?: Change | null;
  submodule?: boolean;
}

export interface Subscribe {
  session_id: string;
  task_id?: string | null;
  cursor?: string | null;
}

export interface TaskCreate {
  request_id: string;
  namespace: string;
  title: string;
  description?: string | null;
}

export interface TaskView {
  task_id: string;
  version: number;
  namespace: string;
  name: string;
  title: string;
  description?: string | null;
  state: string;
  sessions?: Record<string, number>;
  closed?: string | null;
  created_at: string;
}

export interface TreePage {
  path: string;
  entries: readonly (Entry)[];
  next?: string | null;
  unreadable?: readonly (string)[];
}

export interface TurnNotice {
  session_id: string;
  task_id: string;
  cursor: string;
  what: string;
  turn_id?: string | null;
  prompt_id?: string | null;
  outcome?: string | null;
  stop_reason?: string | null;
  fate?: string | null;
  reason?: string | null;
}

export interface WriteAnswer {
  path: string;
  etag: string;
  size: number;
  created: boolean;
}

export type Action =
  | "task.list"
  | "task.create"
  | "profile.list"
  | "task.session.status"
  | "session.create"
  | "session.resume"
  | "session.fresh_start"
  | "session.stop"
  | "session.subscribe"
  | "session.unsubscribe"
  | "message.list"
  | "session.prompt"
  | "agent.cancel"
  | "permission.list"
  | "permission.respond"
  | "shell.subscribe"
  | "shell.unsubscribe"
  | "shell.input"
  | "shell.resize"
  | "file.tree"
  | "file.read"
  | "file.write"
  | "file.search"
  | "git.status"
  | "git.diff"
  | "git.log"
  | "ping";

export type Change =
  | "added"
  | "modified"
  | "deleted"
  | "renamed"
  | "copied"
  | "type_changed"
  | "untracked"
  | "unmerged";

export type ErrorCode =
  | "invalid_frame"
  | "invalid_request"
  | "unknown_action"
  | "unauthenticated"
  | "forbidden"
  | "not_found"
  | "session_not_in_task"
  | "agent_not_ready"
  | "agent_not_running"
  | "agentctl_not_ready"
  | "owned_by_git"
  | "conflict"
  | "refused_by_cluster"
  | "unreachable"
  | "too_many"
  | "rate_limited"
  | "history_unavailable"
  | "internal";

export type FileKind =
  | "file"
  | "folder"
  | "symlink"
  | "other";

export type FrameType =
  | "request"
  | "response"
  | "notification"
  | "error";

export type InProgress =
  | "merge"
  | "rebase"
  | "cherry_pick"
  | "revert"
  | "bisect";

export type Notice =
  | "session.state"
  | "session.state_changed"
  | "session.agentctl_starting"
  | "session.agentctl_ready"
  | "session.agentctl_error"
  | "session.deleted"
  | "session.message.added"
  | "session.message.updated"
  | "session.message.live"
  | "session.message.gap"
  | "session.history"
  | "permission.requested"
  | "permission.resolved"
  | "session.turn"
  | "shell.output"
  | "shell.exit"
  | "task.changed"
  | "gateway.going_away";

export const MEANINGS: Record<string, string> = {
  accepted: "The object can be used as it is written.",
  agent_exited: "The agent ended instead of answering.",
  agent_not_running: "The agent is gone and has not been asked back yet.",
  agent_ready: "The agent is idle and waits for a prompt.",
  agent_unknown: "Nobody can be asked at present whether the agent lives.",
  agentctl_ready: "The executor's agentctl answers.",
  agentctl_unhealthy: "It answers that it is not well.",
  agentctl_unreachable: "It answered before and no longer does.",
  authentication_failed: "It refuses the operator's token.",
  authentication_required: "The agent wants a login or a key first.",
  awaiting_permission: "The turn waits for somebody's permission.",
  bound: "See `status.sessionRef`.",
  cancelled: "A turn was cut off by it, or the task was closed as cancelled.",
  capability_unknown: "The agent could not be asked yet what it can do.",
  checking: "The volume exists; nobody has looked at its marker yet.",
  clock_skew: "Its clock and the operator's differ by more than tokens allow.",
  clone_failed: "A repository cannot be cloned; git's words follow.",
  command_not_found: "The profile's command does not exist where it runs.",
  completed: "It was finished, or its task was closed, between two turns.",
  container_exited: "The container ended; its exit code is given.",
  container_missing: "The Docker engine says there is no such container.",
  contract_mismatch: "It speaks a version of the contract we do not.",
  crash_loop_back_off: "The container fails again and again.",
  deadline_exceeded: "The pod ran for longer than its deadline allows.",
  deadline_reached: "The turn took too long and was cut off.",
  deleting: "The object is being deleted, and what it left is cleared away.",
  docker_unavailable: "The Docker engine cannot be reached.",
  drained: "The executor is empty and takes nobody in.",
  draining: "The executor is being emptied.",
  executor_busy: "Another session is in the executor; this one waits its turn.",
  executor_draining: "The executor is being emptied and takes nobody in.",
  executor_missing: "There is no Executor of the name in `executor.ref`.",
  executor_not_ready: "The executor cannot be used yet, or any more.",
  executor_ready: "The executor is bound to this session and answers.",
  executor_starting: "The executor is on its way.",
  executor_stopped: "Nothing runs there, and nobody asked for it to run.",
  expired: "It ran for longer than `maxDurationSeconds`.",
  finished: "The session has come to its end; its conversation is not resumed.",
  foreign_agentctl: "Another agentctl answers at this address.",
  foreign_workspace: "The files carry the marker of another session.",
  held_elsewhere: "The agent says that another process has the conversation.",
  history_lost: "This conversation is a new one: the agent no longer had what was said before.",
  idle: "Nobody is bound to the executor, and nothing runs in it.",
  idle_timeout: "No turn for longer than `idleTimeoutSeconds`.",
  image_pull_failed: "The image cannot be pulled; the kubelet's words follow.",
  init_failed: "A container that must finish first has failed.",
  initialize_failed: "The agent did not answer `initialize` as it should.",
  interrupted: "A turn was cut off when the agent died; it is not repeated.",
  invalid_resume_token: "The agent refuses the token as malformed.",
  invalid_template: "API server or Docker engine refuse it; their words follow.",
  journal_full: "There is no room left to write down what happens.",
  journal_unreadable: "agentctl's journal is damaged; no agent starts.",
  max_attempts: "It was tried as often as `maxAttempts` allows.",
  missing_resume_token: "Turns were completed, but neither journal nor Secret has a token.",
  mode_not_supported: "The agent or profile does not support WorkspaceOnly.",
  no_agent_wanted: "The operating mode asks for no agent.",
  no_conversation: "No conversation has been opened yet.",
  no_pod: "No pod is wanted: nobody is bound.",
  node_lost: "The pod's node is gone and its agent may live on; see kandev.dev/confirmed-dead.",
  node_unknown: "Nothing is heard of the pod's node; nothing is concluded.",
  not_allowed: "The operator's options do not allow this.",
  not_applicable: "This runtime has no pod.",
  not_asked: "There is nobody to ask: no session, or no agentctl yet.",
  not_bound: "Session and executor do not point at each other yet.",
  not_draining: "Nobody asked for it.",
  not_finished: "Nobody asked for it.",
  not_needed: "The session rests or has finished: it needs no executor.",
  not_resumable: "The agent cannot resume, or its profile forbids it.",
  not_started: "No agent was started yet; `Ready` says what that waits for.",
  not_suspended: "Nobody asked for it.",
  not_used: "Nothing is asked of it while the executor cannot be used; see `Ready`.",
  oom_killed: "The container took more memory than its limit and was killed.",
  pending: "The operator has seen the object and not yet begun.",
  pod_deleted: "Somebody deleted the pod.",
  pod_evicted: "The node put the pod out; its words follow.",
  pod_pending: "The pod is made and waits for the scheduler.",
  pod_terminating: "The earlier pod has not gone yet.",
  preparing: "Volume or worktree are being made.",
  probed: "The agent answered; see `status.capabilities`.",
  process_exited: "The local agentctl process ended.",
  profile_missing: "There is no AgentProfile of the name in `agentProfileRef`.",
  progressing: "The next step is under way.",
  prompt_missing: "The first prompt's ConfigMap or Secret lacks it.",
  protocol_mismatch: "The agent speaks another protocol version.",
  quota_exceeded: "The namespace's quota has no room for the pod.",
  released: "The executor holds no session and therefore no files.",
  releasing: "The session has let go; what is left of it is cleared away.",
  requested: "`operatingMode` asks for it.",
  resumable: "Profile, agent and token permit it.",
  resume_failed: "The agent failed to resume; this may pass, the token is kept.",
  resume_timed_out: "The agent did not answer a resume in time.",
  resume_token_unknown: "The token's Secret or journal cannot be read.",
  resuming: "The earlier conversation is being taken up again.",
  retrying: "A failure is looked at again, at `nextAttemptAt` where that is set.",
  scheduled: "The pod has a node.",
  secret_missing: "A Secret or key that the profile's environment names is gone.",
  session_gone: "The session was deleted; its agent is stopped and the place freed.",
  session_not_found: "The agent definitely has no conversation of this token any more.",
  spec_invalid: "The object does not fit this version of the operator.",
  start_failed: "The agent refused to begin a conversation; its words are given.",
  start_timed_out: "It did not answer within the start time.",
  starting: "It has not answered yet, and still has time.",
  stopped: "It was stopped on purpose.",
  stopping: "The agent is being stopped gently.",
  summarized: "The task's state says where its sessions stand.",
  superseded: "A later wish took the place of this one before it was done.",
  suspended: "The session rests, as it was asked to.",
  task_missing: "There is no Task of the name in `taskRef`.",
  turn_running: "The agent works on a prompt.",
  unschedulable: "No node takes the pod; the scheduler's words follow.",
  waiting_for_executor: "The executor is not ready yet.",
  waiting_for_turn: "The turn that is under way may end first.",
  workspace_in_use: "The files are another session's, or another agentctl's.",
  workspace_missing: "The claim or the files on it are gone.",
  workspace_ready: "The files are there and belong to this session.",
  workspace_served: "Workspace-only: shell, files and git can be used.",
  workspace_unknown: "Nobody can be asked about the files at present.",
  worktree_missing: "The folder in `worktreePath` does not exist.",
};
