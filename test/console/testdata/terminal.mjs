// Types on a background process, loses kaged's connection in between, and prints what the terminal showed.
import { Client } from "../../../clients/ts/dist/index.js";

const kaged = new Client({ baseUrl: process.env.KAGED_URL, token: process.env.KAGED_TOKEN });
const { processes } = await kaged.call("GET /api/v1/sessions/{session_id}/processes", { session_id: process.env.SESSION });
const shell = processes.find((p) => p.background && p.terminal);
const decoder = new TextDecoder();
const states = [];
let shown = "", replayed = "", refused = "", typed = 0;
const end = await new Promise((done) => {
  const socket = kaged.socket(process.env.SESSION, { onFrame() {}, onState: (state) => states.push(state) }, { terminalsOnly: true, maxDelay: 200 });
  const next = () => {
    if (typed === 0 && shown.includes("ready")) {
      typed = 1;
      terminal.resize(100, 30);
      terminal.write("stty size; echo first-$((1+1))\n");
    }
    if (typed === 1 && shown.includes("first-2")) {
      typed = 2;
      socket.line.socket.close(); // as a lost network does
      setTimeout(function again() {
        if (!terminal.write("echo second-$((1+2)); exit 7\n")) setTimeout(again, 20);
      }, 20);
    }
  };
  const terminal = socket.terminal(shell.id, {
    onData(data, replay) {
      const text = decoder.decode(data, { stream: true });
      shown += text;
      if (replay) replayed += text;
      next();
    },
    onEnd(ended) {
      socket.close();
      done(ended);
    },
    onError: (error) => (refused = error.code),
  });
});
console.log(JSON.stringify({ shown, replayed, refused, states, exit: end.exit_code, offset: end.offset }));
process.exit(0);
