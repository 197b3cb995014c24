// Starts a run and follows it to its end; says "one" when the first word is there, and last what it saw.
import { Client, KagedError } from "../../../clients/ts/dist/index.js";

const kaged = new Client({ baseUrl: process.env.KAGED_URL, token: process.env.KAGED_TOKEN });
const session = await kaged.call("POST /api/v1/projects/{project_id}/sessions", { project_id: "wordcount" }, { name: "from TypeScript" });
let refused = "";
try {
  await kaged.call("GET /api/v1/sessions/{id}", { id: "01K0000000000000000000000A" });
} catch (error) {
  refused = error instanceof KagedError ? error.code : String(error);
}
const seqs = [], states = [];
let text = "", said = false;
const post = () => kaged.call("POST /api/v1/sessions/{session_id}/messages", { session_id: session.id }, { content: "count" });
await new Promise((done) => {
  const socket = kaged.socket(session.id, {
    onState(state) {
      states.push(state);
      // One try has failed while kaged was away.
      if (state === "waiting" && states.filter((s) => s === state).length === 2) console.log("away");
      if (state === "live" && states.length === 2) void post();
    },
    onFrame(frame) {
      if (frame.channel === "output") seqs.push(frame.seq);
      if (frame.type === "message.start" || frame.type === "message.retract") text = "";
      if (frame.type === "message.delta") {
        if (!said) console.log("one");
        said = true;
        text += frame.payload.delta;
      }
      if (frame.type === "run.ended" && frame.payload.outcome === "failed") void post(); // kaged was killed under it
      if (frame.type === "run.ended" && frame.payload.outcome === "completed") {
        socket.close();
        done();
      }
    },
  }, { resume: { output: 0, events: 0 }, maxDelay: 500 });
});
let stored = "";
for await (const message of kaged.items("GET /api/v1/sessions/{session_id}/messages", { session_id: session.id })) {
  if (message.role === "primary") stored = message.content;
}
console.log(JSON.stringify({ text, stored, refused, seqs, states }));
process.exit(0);
