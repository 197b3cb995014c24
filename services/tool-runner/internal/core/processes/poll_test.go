package processes_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/sandbox"
	"kaged.dev/services/tool-runner/internal/core/processes"
)

// A poll continues after the preceding one, in characters, and of longer output returns the last characters up to the
// limit. Reading by offsets returns all output, however it was printed in pieces.
func TestPollProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := newHost()
		table := open(h, "")
		p, err := table.Start(t.Context(), entry("c"), sandbox.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		limit := rapid.IntRange(1, 12).Draw(t, "limit")
		keep := rapid.IntRange(1, 60).Draw(t, "keep")
		valid := true
		var printed, polled, shown strings.Builder
		at := int64(0)
		look := func(ended bool) {
			page, err := table.Poll(t.Context(), "s", "primary", p.ID, limit, 0, func(s string) { shown.WriteString(s) })
			if err != nil {
				t.Fatal(err)
			}
			runes := len([]rune(page.Output))
			if runes > limit || page.From < at || page.Next < page.From || page.Omitted != page.From-at ||
				page.Unread != int64(printed.Len())-page.Next {
				t.Fatalf("after %d: %+v", at, page)
			}
			if page.Output != string([]rune(printed.String()[page.From:page.Next])) {
				t.Fatalf("bytes %d to %d of %q are %q", page.From, page.Next, printed.String(), page.Output)
			}
			if behind := int64(printed.Len()) - page.Next; behind > 3 || ended && behind > 0 {
				t.Fatalf("%d bytes are held back of %q", behind, printed.String())
			}
			at = page.Next
			polled.WriteString(page.Output)
		}
		for range rapid.IntRange(1, 8).Draw(t, "times") {
			text := strings.Join(
				rapid.SliceOfN(rapid.SampledFrom([]string{"a", "é", "😀", "\xf0\x9f", "\xff", "\n", "0123456789"}), 0, 8).
					Draw(t, "text"),
				"",
			)
			valid = valid && utf8.ValidString(text)
			printed.WriteString(text)
			h.prints(p.ID, text, keep)
			look(false)
		}
		h.exits(p.ID, contract.Exit{})
		look(true)
		if limit >= printed.Len() && keep >= printed.Len() && polled.String() != string([]rune(printed.String())) {
			t.Fatalf("%q was polled as %q", printed.String(), polled.String())
		}
		// By offsets, from any position.
		start := max(0, printed.Len()-keep)
		var read strings.Builder
		from := int64(rapid.IntRange(0, printed.Len()).Draw(t, "from"))
		for next := from; next < int64(printed.Len()); {
			page, err := table.ReadAt(t.Context(), "s", "primary", p.ID, next, limit)
			if err != nil || page.From < next || page.Next <= next || len([]rune(page.Output)) > limit ||
				page.Omitted != page.From-next {
				t.Fatalf("from %d of %q: %+v, %v", next, printed.String(), page, err)
			}
			if page.From > next && page.From > int64(start+3) {
				t.Fatalf("from %d of %q, kept from %d: %+v", next, printed.String(), start, page)
			}
			if page.Output != string([]rune(printed.String()[page.From:page.Next])) {
				t.Fatalf("bytes %d to %d of %q are %q", page.From, page.Next, printed.String(), page.Output)
			}
			next = page.Next
			read.WriteString(page.Output)
		}
		if all := printed.String(); valid && from == 0 && !strings.HasSuffix(all, read.String()) {
			t.Fatalf("%q reads %q", all, read.String())
		}
	})
}

// A poll without new output waits: for output, and shortly for more; for the end; or until its time limit.
func TestPollWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		table := open(h, "")
		id := begin(t, table, "c")
		wait := func(most time.Duration, want string, status processes.Status, took time.Duration) {
			t.Helper()
			began := time.Now()
			page, err := table.Poll(t.Context(), "s", "primary", id, 100, most, func(string) {})
			if err != nil || page.Output != want || page.Status != status || time.Since(began) != took {
				t.Errorf("%+v, %v after %s", page, err, time.Since(began))
			}
		}
		wait(time.Minute, "", processes.Running, time.Minute)
		wait(0, "", processes.Running, 0)
		go func() {
			time.Sleep(time.Second)
			h.prints(id, "a", 100)
			time.Sleep(10 * time.Millisecond)
			h.prints(id, "b", 100)
			time.Sleep(time.Second)
			h.prints(id, "c", 100)
		}()
		wait(time.Minute, "ab", processes.Running, time.Second+50*time.Millisecond)
		wait(time.Minute, "c", processes.Running, time.Second+10*time.Millisecond)
		go func() {
			time.Sleep(time.Second)
			h.prints(id, "d", 100)
			h.exits(id, contract.Exit{Code: 1})
		}()
		wait(time.Minute, "d", processes.Exited, time.Second)
		wait(time.Minute, "", processes.Exited, 0)
		// Wait waits only for the end.
		id = begin(t, table, "d")
		go func() {
			time.Sleep(time.Second)
			h.prints(id, "x", 100)
			time.Sleep(time.Second)
			h.exits(id, contract.Exit{})
		}()
		began := time.Now()
		if p, err := table.Wait(t.Context(), "s", "primary", id, time.Minute); err != nil || p.Status != processes.Exited ||
			time.Since(began) != 2*time.Second ||
			p.Unread != 1 {
			t.Errorf("%+v, %v after %s", p, err, time.Since(began))
		}
		id = begin(t, table, "e")
		if p, err := table.Wait(t.Context(), "s", "primary", id, time.Second); err != nil || p.Status != processes.Running {
			t.Errorf("%+v, %v", p, err)
		}
		h.exits(id, contract.Exit{})
	})
}

// On a terminal, line ends become those of text, also if a poll falls between the two characters of a line end.
func TestPollOfATerminal(t *testing.T) {
	t.Parallel()
	h := newHost()
	table := open(h, "")
	e := entry("c")
	e.Terminal = true
	p, err := table.Start(t.Context(), e, sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	h.prints(p.ID, "one\r\ntwo\r", 100)
	if page := poll(t, table, p.ID, 100); page.Output != "one\ntwo" || page.Next != 8 {
		t.Errorf("%+v", page)
	}
	h.prints(p.ID, "\n10%\r20%", 100)
	if page := poll(t, table, p.ID, 100); page.Output != "\n10%\r20%" {
		t.Errorf("%+v", page)
	}
	h.prints(p.ID, strings.Repeat("\r", 10_000), 20_000)
	if page := poll(t, table, p.ID, 20_000); page.Next != 17+10_000 {
		t.Errorf("nothing but returns: up to %d", page.Next)
	}
}

// A restart repeats exactly the output of the last poll, whose delivery is unknown.
func TestRestartRepeatsTheLastPoll(t *testing.T) {
	t.Parallel()
	h, dir := newHost(), t.TempDir()
	table := open(h, dir)
	id := begin(t, table, "c")
	for i := range 3 {
		h.prints(id, fmt.Sprint("line ", i, "\n"), 1000)
		if page := poll(t, table, id, 100); page.Output != fmt.Sprint("line ", i, "\n") {
			t.Errorf("%+v", page)
		}
	}
	if page := poll(t, open(h, dir), id, 100); page.Output != "line 2\n" {
		t.Errorf("after a restart: %+v", page)
	}
}
