package console_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/testkit/fakellm"
)

// fill writes turns into a session as in earlier runs, each with an answer that has text and a tool call.
func (w *world) fill(t testing.TB, session string, turns int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), w.owner)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, sql := range []string{
		// Without the triggers the texts are not indexed for the search.
		"alter table session_manager.messages disable trigger user",
		fmt.Sprintf(`insert into session_manager.messages
			(id, session_id, ordinal, role, content, blocks, metadata, created_at)
			select lpad((n + (select count(*) from session_manager.messages))::text, 26, '0'), '%s', n,
				case when n %% 2 = 1 then 'operator' else 'primary' end,
				case when n %% 2 = 1 then 'Question ' || (n + 1) / 2 || ' of many.'
					else 'Answer ' || n / 2 || ': ' || repeat('some words of an answer ', (n * 7 %% 60)::int) end,
				case when n %% 2 = 0 then jsonb_build_array(
					jsonb_build_object('type', 'text', 'text', 'Answer ' || n / 2 || E'\n\n' ||
						repeat('Some words of an answer. ', (n * 7 %% 60)::int) || E'\n\n- one\n- two\n'),
					jsonb_build_object('type', 'tool_call', 'id', 'c' || n, 'name', 'shell.bash',
						'input', '{"command":"go test ./..."}'),
					jsonb_build_object('type', 'tool_result', 'tool_call_id', 'c' || n, 'name', 'shell.bash',
						'output', '{"exit_code":0,"stdout":"ok\n","stderr":""}')) end,
				case when n %% 2 = 0 then '{"provider":"fake","model":"m","stop_reason":"end"}'::jsonb end,
				1700000000000 + n * 1000
			from generate_series(1, %d) n`, session, 2*turns),
		"alter table session_manager.messages enable trigger user",
		fmt.Sprintf("update session_manager.sessions set next_ordinal = %d where id = '%s'", 2*turns+1, session),
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

// pageHelpers observe a long conversation: the turns named in the bar, the position of a row, and blank parts of the
// list.
const pageHelpers = `
	window.list = () => document.querySelector(".rows");
	window.shown = () => (/turns (\d+) to (\d+) of (\d+)/.exec(document.querySelector(".talk-bar").innerText) ?? [])
		.slice(1).map(Number);
	window.anchor = () => {
		const top = list().getBoundingClientRect().top;
		const row = [...document.querySelectorAll(".rows .row")]
			.find(r => r.getBoundingClientRect().bottom > top + 1 && r.innerText.trim());
		return { text: row.innerText.slice(0, 60), y: row.getBoundingClientRect().top - top };
	};
	window.pages = 0;
	new PerformanceObserver(seen => {
		pages += seen.getEntries().filter(e => e.name.includes("/messages")).length;
	}).observe({ type: "resource", buffered: true });
	window.blank = 0;
	window.watching = () => {
		const r = list().getBoundingClientRect();
		for (const part of [0.2, 0.5, 0.8]) {
			const found = document.elementFromPoint(r.left + r.width / 2, r.top + r.height * part);
			if (!found?.closest(".row")) window.blank++;
		}
		requestAnimationFrame(window.watching);
	};
	true`

// A session of 10,000 turns opens at its end: the page requests one page of messages and draws the visible rows.
// Scrolling up loads older pages without moving the visible text, no part is blank, the bar names the visible turns,
// and a key leads to each end.
func TestLongSession(t *testing.T) {
	const turns = 10_000
	w := start(t, func(*fakellm.Request) fakellm.Step { return fakellm.Step{fakellm.Say("A new answer.")} })
	id := w.session(t, "long", "")
	w.fill(t, id, turns)
	b := newBrowser(t, w)
	b.open(t, w, "/sessions/"+id)
	b.shows(t, fmt.Sprintf("Answer %d", turns))
	eval[bool](t, b, pageHelpers)
	b.until(t, "a page was read", `pages > 0`)
	if n := eval[int](t, b, `pages`); n > 1 {
		t.Errorf("%d pages were read before the end was shown", n)
	}
	b.until(t, "the bar says where",
		fmt.Sprintf(`shown()[1] === %d && shown()[2] === %d && shown()[0] > %d`, turns, turns, turns-20))
	if n := eval[int](t, b, `document.querySelectorAll(".rows .row").length`); n > 80 {
		t.Errorf("%d rows are drawn", n)
	}

	// Up in steps of 400 pixels until an older page has arrived, and further into it.
	moved := eval[[]string](t, b, `(async () => {
		const frame = () => new Promise(requestAnimationFrame), wrong = [], before = pages;
		watching();
		for (let i = 0, on = 60; pages === before || on-- > 0; i++) {
			list().scrollTop -= 400;
			await frame(); await frame();
			const at = anchor();
			await frame(); await frame(); await frame();
			const now = anchor();
			if (now.text !== at.text || Math.abs(now.y - at.y) > 2)
				wrong.push(i + ": " + JSON.stringify(at) + " became " + JSON.stringify(now));
		}
		return wrong.slice(0, 5).concat(wrong.length > 5 ? ["and " + (wrong.length - 5) + " more"] : []);
	})()`)
	for _, one := range moved {
		t.Errorf("the reader was moved: %s", one)
	}
	if n := eval[int](t, b, `blank`); n > 0 {
		t.Errorf("%d times a place was blank", n)
	}
	at := eval[[]int](t, b, `shown()`)
	if len(at) != 3 || at[0] > at[1] || at[1] >= turns || at[2] != turns {
		t.Errorf("the bar says %v", at)
	}
	if text := eval[string](t, b, `anchor().text + list().innerText`); len(text) < 100 {
		t.Errorf("the list shows %q", text)
	}

	// A new answer arrives while the reader is further up: the visible part does not move.
	place := eval[string](t, b, `JSON.stringify(anchor())`)
	b.run(t, "write", write(".composer textarea", "more"))
	w.do(t, "POST", "/api/v1/sessions/"+id+"/messages", map[string]any{"content": "and more"}, nil)
	b.until(t, "the new turn counts", fmt.Sprintf(`shown()[2] === %d`, turns+1))
	if now := eval[string](t, b, `JSON.stringify(anchor())`); now != place {
		t.Errorf("the reader was moved from %s to %s", place, now)
	}

	b.run(t, "leave the field, to the start", click(".session-top h1"), chromedp.KeyEvent(kb.Home))
	b.shows(t, "Question 1 of many.")
	b.until(t, "the bar says the first", `shown()[0] === 1`)
	b.run(t, "to the end", chromedp.KeyEvent(kb.End))
	b.shows(t, "A new answer.")
	b.until(t, "the bar says the last", fmt.Sprintf(`shown()[1] === %d`, turns+1))
	if n := eval[int](t, b, `document.querySelectorAll(".rows .row").length`); n > 80 {
		t.Errorf("%d rows are drawn", n)
	}
}
