package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// floorStyle is the console's font and width of a conversation, without its other styles.
const floorStyle = `<!doctype html><meta charset="utf-8"><style>
	body { font: 14px/1.5 system-ui, sans-serif; margin: 0 }
	.rows { height: 600px; width: 740px; overflow-y: auto }
	article { content-visibility: auto; contain-intrinsic-size: auto 120px }
</style>`

// floor serves bare pages that do what the console does, without a framework, Markdown, or anything beside the
// conversation: their figures are those of the browser, the slowdown and the machine.
func floor(tb testing.TB, turns, deltas int, burst time.Duration) string {
	tb.Helper()
	mux := http.NewServeMux()
	// Lists with the same text: of as many turns, of which the browser lays out those near the view, and of the few
	// turns that are scrolled through, all laid out before.
	for path, list := range map[string]struct {
		turns   int
		element string
	}{"/scroll": {turns, "article"}, "/laid-out": {300, "section"}} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, floorStyle, `<div class="rows">`)
			for n := range list.turns {
				fmt.Fprintf(w, "<%[1]s><h2>Question %[2]d of many.</h2><p>Answer %[2]d</p><p>%[3]s</p><ul><li>one<li>two</ul>"+
					"<p>shell.bash go test ./...</p></%[1]s>", list.element, n, strings.Repeat("Some words of an answer. ", n*14%60))
			}
			fmt.Fprint(w, `</div><script>document.querySelector(".rows").scrollTop = 1e9</script>`)
		})
	}
	// A list that has only its height.
	mux.HandleFunc("/empty", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, floorStyle, `<div class="rows"><div style="height:5000000px"></div></div>
			<script>document.querySelector(".rows").scrollTop = 1e9</script>`)
	})
	// The turns of the laid-out list in a window made by hand: rows are made above the view while it is scrolled up, and
	// removed below it.
	mux.HandleFunc("/windowed", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, floorStyle, `<style>
				.window { position: relative; height: 5000000px }
				.block { position: absolute; width: 100%; bottom: 0 }
				.block > * { margin: 0; padding: 8px 0 }
			</style><div class="rows"><div class="window"><div class="block"></div></div></div><script>
			const rows = document.querySelector(".rows"), block = document.querySelector(".block");
			let n = 1200, bottom = 0;
			const make = (name, text) => {
				const made = document.createElement(name);
				made.textContent = text;
				return made;
			};
			const row = () => {
				const turn = n-- >> 2;
				if (n % 4 === 3) return make("p", "shell.bash go test ./...");
				if (n % 4 === 1) return make("p", "Answer " + turn + " " + "Some words of an answer. ".repeat(turn * 14 % 60));
				if (n % 4 === 0) return make("h2", "Question " + turn + " of many.");
				const list = make("ul", "");
				list.append(make("li", "one"), make("li", "two"));
				return list;
			};
			const fill = () => {
				for (let some = 3; n > 0 && some > 0 && block.offsetTop > rows.scrollTop - 1200; some--) block.prepend(row());
				for (; block.childElementCount > 60; block.lastChild.remove()) {
					block.style.bottom = (bottom += block.lastChild.offsetHeight) + "px";
				}
			};
			rows.scrollTop = 1e9;
			rows.addEventListener("scroll", fill);
		</script>`)
	})
	// A page that writes the messages of its socket as text nodes, once a frame, and stays at the end.
	mux.HandleFunc("/burst", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, floorStyle, `<div class="rows"><p></div><script>
			const rows = document.querySelector(".rows");
			`+floorWrite+`
			window.go = () => {
				const socket = new WebSocket(location.href.replace("http", "ws") + "/socket");
				socket.onmessage = e => {
					if (!text) requestAnimationFrame(write);
					text += JSON.parse(e.data).payload.delta;
				};
				socket.onclose = () => (window.over = true);
			};
		</script>`)
	})
	mux.HandleFunc("/burst/socket", func(w http.ResponseWriter, r *http.Request) {
		conn, err := new(websocket.Upgrader).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		// The harness sends at most one delta of a stream in 5 ms, with the others of that time.
		joined := max(1, int(5*time.Millisecond/(burst/time.Duration(deltas))))
		tick := time.NewTicker(burst / time.Duration(deltas/joined))
		defer tick.Stop()
		for seq := range deltas / joined {
			<-tick.C
			if conn.WriteMessage(websocket.TextMessage, fmt.Appendf(nil,
				`{"channel":"output","type":"message.delta","seq":%d,"payload":{"message_id":"m","kind":"text","delta":%q}}`,
				seq, strings.Repeat("some word ", joined))) != nil {
				return
			}
		}
	})
	server := httptest.NewServer(mux)
	tb.Cleanup(server.Close)
	return server.URL
}

// floorWrite defines write for a bare page: it appends text to the last paragraph of rows, and begins another after
// 2,000 characters.
const floorWrite = `
	let open = rows.firstChild, length = 0, text = "";
	const write = () => {
		if ((length += text.length) > 2000) {
			rows.append(open = document.createElement("p"));
			length = 0;
		}
		open.append(text);
		text = "";
		rows.scrollTop = 1e9;
	};`

// bareSession makes a page write the text of a session's socket as the bare page does, in place of the console. The
// daemon then works beside the browser as for the console, with the same frames.
const bareSession = `(async () => {
	document.body.replaceChildren();
	document.body.style.cssText = "font: 14px/1.5 system-ui, sans-serif; margin: 0";
	const rows = document.body.appendChild(document.createElement("div"));
	rows.className = "rows";
	rows.style.cssText = "height: 600px; width: 740px; overflow-y: auto";
	rows.append(document.createElement("p"));
	` + floorWrite + `
	const { csrf_token } = await (await fetch("/api/v1/me")).json();
	const socket = new WebSocket(location.origin.replace("http", "ws") + "/api/v1/sessions/%s/socket",
		["kaged.v1", "kaged.csrf." + csrf_token]);
	const hello = { channel: "control", type: "hello", payload: { resume_from_seq: {} } };
	socket.onopen = () => socket.send(JSON.stringify(hello));
	return new Promise(done => {
		socket.onmessage = e => {
			const frame = JSON.parse(e.data);
			if (frame.type === "welcome") {
				socket.send(JSON.stringify({ channel: "control", type: "subscribe", payload: { channels: ["output"] } }));
				done(true);
			}
			if (frame.type !== "message.delta") return;
			if (!text) requestAnimationFrame(write);
			text += frame.payload.delta;
		};
	});
})()`
