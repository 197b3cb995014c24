// Has a project's agent work on a prompt and prints what it changed. Copy it to a folder of yours and type, with this repository at ../kaged:
//
//   ../kaged/scripts/web.sh --client && npm install ../kaged/clients/ts
//   KAGED_TOKEN=kaged_... node --experimental-websocket diff.mjs wordcount "fix the failing test"
import { Client } from "@kaged/client";

const [projectId, content] = process.argv.slice(2);
const kaged = new Client({ baseUrl: process.env.KAGED_URL ?? "http://127.0.0.1:7420", token: process.env.KAGED_TOKEN });
const { id } = await kaged.call("POST /api/v1/projects/{project_id}/sessions", { project_id: projectId }, {});
await new Promise((done) => {
  const socket = kaged.socket(id, {
    onState: (state) => state === "live" && kaged.call("POST /api/v1/sessions/{session_id}/messages", { session_id: id }, { content }),
    onFrame: (frame) => frame.type === "run.ended" && done(socket.close()),
  });
});
const { items } = await kaged.call("GET /api/v1/sessions/{session_id}/changes", { session_id: id });
for (const change of items) process.stdout.write(change.diff ?? "");
process.exit(0);
