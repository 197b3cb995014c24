export { Client, KagedError } from "./client.js";
export type { Answer, Body, ClientOptions, Params, Route } from "./client.js";
export { SessionSocket } from "./socket.js";
export type { Frame, Gap, SocketHandlers, SocketOptions, SocketState } from "./socket.js";
export { Terminal } from "./terminal.js";
export type { PtyEnded, PtyPosition, TerminalHandlers } from "./terminal.js";
export type * from "./types.gen.js";
