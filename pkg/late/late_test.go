package late_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/late"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func stop(session string) late.Record {
	return late.Record{
		Session: session, Project: "p1",
		Record: contract.NewRecord("code.lsp.server_stopped", "", map[string]any{"reason": "idle_timeout"}),
	}
}

func sessions(list []late.Record) (names []string) {
	for _, r := range list {
		names = append(names, r.Session)
	}
	return names
}

// Records are kept over restarts with their ids until they are acknowledged. A log adds a record with a known id once.
func TestRecordsAreKept(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	path := filepath.Join(t.TempDir(), "service", "records.json")
	open := func() *late.Log {
		l := late.New(path, slog.New(slog.NewTextHandler(&said, nil)))
		l.Load()
		return l
	}
	first := open()
	first.Add(stop("s1"), stop("s2"))
	second := open()
	kept := second.List()
	if !slices.Equal(sessions(kept), []string{"s1", "s2"}) || kept[0].ID == "" || kept[0].ID == kept[1].ID ||
		kept[0].Project != "p1" || kept[0].Record.Payload["reason"] != "idle_timeout" || kept[0].Record.At == 0 {
		t.Fatalf("after a restart the records are %+v", kept)
	}
	second.Add(kept[1])
	second.Told(kept[0].ID)
	second.Told("unknown")
	third := open()
	if got := sessions(third.List()); !slices.Equal(got, []string{"s2"}) {
		t.Errorf("after an acknowledgement the records are of %v", got)
	}
	if got := sessions(third.Take(func(r late.Record) bool { return r.Session == "s2" })); len(got) != 1 {
		t.Errorf("taken are the records of %v", got)
	}
	if left := open().List(); len(left) != 0 || said.Len() > 0 {
		t.Errorf("left are %v; the log is %s", left, &said)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if left := open().List(); len(left) != 0 || !bytes.Contains(said.Bytes(), []byte("cannot be read")) {
		t.Errorf("a broken file has the records %v; the log is %s", left, &said)
	}
}

// A log without a reader drops its oldest records, and logs them.
func TestTooManyRecords(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	l := late.New("", slog.New(slog.NewTextHandler(&said, nil)))
	var many []late.Record
	for i := range late.MaxRecords + 1 {
		many = append(many, stop(fmt.Sprint("s", i)))
	}
	l.Add(many...)
	if list := l.List(); len(list) != late.MaxRecords || list[0].Session != "s1" ||
		!bytes.Contains(said.Bytes(), []byte("session_id=s0")) {
		t.Errorf("the log has %d records; it logged %s", len(list), &said)
	}
}

// A watcher receives each record once, also those that are added before its end. Without an acknowledgement the next
// watcher receives them again.
func TestWatch(t *testing.T) {
	t.Parallel()
	l := late.New("", slog.New(slog.DiscardHandler))
	l.Add(stop("s1"))
	last := make(chan struct{})
	var got []string
	err := l.Watch(t.Context(), last, func(r late.Record) error {
		if got = append(got, r.Session); r.Session == "s1" {
			l.Add(stop("s2"))
			close(last)
		}
		return nil
	})
	if err != nil || !slices.Equal(got, []string{"s1", "s2"}) {
		t.Errorf("told are the records of %v, %v", got, err)
	}
	ctx, leave := context.WithCancel(t.Context())
	got = nil
	err = l.Watch(ctx, nil, func(r late.Record) error {
		got = append(got, r.Session)
		l.Told(r.ID)
		if len(got) == 2 {
			leave()
		}
		return nil
	})
	if err != nil || !slices.Equal(got, []string{"s1", "s2"}) || len(l.List()) != 0 {
		t.Errorf("told again are the records of %v, %v", got, err)
	}
	broken := errors.New("broken")
	l.Add(stop("s3"))
	if err := l.Watch(t.Context(), nil, func(late.Record) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// A receiver acknowledges the records that it has stored, and ends with the first error.
func TestReceive(t *testing.T) {
	t.Parallel()
	events := []late.Record{{ID: "1"}, {}, {ID: "2"}, {ID: "3"}}
	over := errors.New("over")
	var acknowledged []string
	next := func() (late.Record, error) {
		if len(events) == 0 {
			return late.Record{}, over
		}
		r := events[0]
		events = events[1:]
		return r, nil
	}
	err := late.Receive(next, func(r late.Record) (bool, error) { return r.ID != "2", nil }, func(id string) error {
		acknowledged = append(acknowledged, id)
		return nil
	})
	if !errors.Is(err, over) || !slices.Equal(acknowledged, []string{"1", "3"}) {
		t.Errorf("acknowledged are %v, %v", acknowledged, err)
	}
	events = []late.Record{{ID: "4"}}
	full := errors.New("full")
	if err := late.Receive(next, func(late.Record) (bool, error) { return true, full }, nil); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

// The acknowledgements of a stream arrive until its end, which ends its context.
func TestAcknowledge(t *testing.T) {
	t.Parallel()
	ids := make(chan string)
	var told []string
	ctx, cancel := late.Acknowledge(t.Context(), func() (string, error) {
		id, open := <-ids
		if !open {
			return "", errors.New("the stream ended")
		}
		return id, nil
	}, func(id string) { told = append(told, id) })
	defer cancel()
	for _, id := range []string{"", "1", "2"} {
		ids <- id
	}
	close(ids)
	<-ctx.Done()
	if !slices.Equal(told, []string{"1", "2"}) {
		t.Errorf("told are %v", told)
	}
}
