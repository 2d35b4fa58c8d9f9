// Allows each request, and sets a header.
import { Decision, Request, onRequest } from "scriptorium-sdk";
export { handle, scriptorium_alloc } from "scriptorium-sdk";

onRequest((request: Request): Decision | null => Decision.allow().setHeader("x-hello", "hello " + request.remoteAddr));
