package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/page"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/live"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
	"kaged.dev/services/session-manager/internal/sessions/store"
	"kaged.dev/services/session-manager/internal/storetest"
)

var (
	_ sessions.Store = (*store.Sessions)(nil)
	_ live.Store     = (*store.Sessions)(nil)
)

// A session reads back as it was created, and only for its owner.
func TestCreateSession(t *testing.T) {
	t.Parallel()
	s, _ := kept(t)
	n := addOne(t, s, func(n *record.Session) { n.Label, n.Workspace = "one", "w" })
	got, err := s.Session(t.Context(), "ada", n.ID)
	n.PromptHashes = map[string]string{}
	if d := cmp.Diff(n, got); d != "" || err != nil {
		t.Error(d, err)
	}
	for _, owner := range []string{"eve", ""} {
		if _, err := s.Session(t.Context(), owner, n.ID); !errors.Is(err, fault.NotFound) {
			t.Errorf("%q sees it: %v", owner, err)
		}
	}
	n.ProjectID = "gone"
	if err := s.Create(t.Context(), n, "", created(n)); !errors.Is(err, fault.NotFound) {
		t.Errorf("a session of no project: %v", err)
	}
	n.ProjectID, n.ID = "music", ident.New()
	if err := s.Create(t.Context(), n, ident.New(), created(n)); !errors.Is(err, fault.NotFound) {
		t.Errorf("a fork of an unknown session: %v", err)
	}
}

// A change is applied as a whole, reads back unchanged, and is applied once even if it is sent again.
func TestApply(t *testing.T) {
	t.Parallel()
	s, pool := kept(t)
	n := addOne(t, s, nil)
	f := take(t, s, n.ID, "i", 60_000).Fence
	a := newRun(n)
	for i, c := range []record.Change{a.begin, a.middle, a.end} {
		if err := s.Apply(t.Context(), f, c, false); err != nil {
			t.Fatalf("change %d: %v", i, err)
		}
		if i < 2 {
			want := []contract.CageStatus{contract.CagePending, contract.Caged}[i]
			if at, err := s.Session(t.Context(), "ada", n.ID); err != nil || at.Cage != want {
				t.Errorf("the cage is %q after change %d, %v", at.Cage, i, err)
			}
		}
		if i == 0 {
			loaded, err := s.Load(t.Context(), n.ID, false)
			if err != nil || loaded.Run == nil || loaded.Run.ID != a.run.ID || loaded.Tries != 1 || len(loaded.Outbox) != 1 ||
				string(loaded.Outbox[0].Payload) != `{"a":1}` || loaded.Session.CurrentMessage != "m1" {
				t.Errorf("loaded = %+v, %v", loaded, err)
			}
		}
	}
	said, err := s.Session(t.Context(), "ada", n.ID)
	if d := cmp.Diff(a.end.On(a.middle.On(a.begin.On(n))), said, cmpopts.EquateEmpty()); d != "" || err != nil {
		t.Errorf("the store has another session than the changes say: %s %v", d, err)
	}
	loaded, err := s.Load(t.Context(), n.ID, false)
	if err != nil || loaded.Run != nil || loaded.Resume == nil || loaded.Resume.ID != a.run.ID ||
		loaded.Resume.CancelRequestedAt != 210 || loaded.Tries != 1 {
		t.Errorf("the run to resume is loaded as %+v, %v", loaded, err)
	}
	for _, c := range []record.Change{a.begin, a.middle} {
		if err := s.Apply(t.Context(), f, c, true); err != nil {
			t.Errorf("again: %v", err)
		}
	}
	if err := s.Apply(t.Context(), f, a.begin, false); !errors.Is(err, fault.Internal) {
		t.Errorf("the same ids in another change: %v", err)
	}
	a.check(t, s, n.ID)
	if got := storetest.Types(t, pool, audit.Query{Owner: "ada"}); strings.Count(got, "message.posted") != 1 {
		t.Errorf("recorded %s", got)
	}
}

// Published numbers never decrease, and deleting a published frame twice is harmless.
func TestProgress(t *testing.T) {
	t.Parallel()
	s, _ := kept(t)
	n := addOne(t, s, nil)
	f := take(t, s, n.ID, "a", 60_000).Fence
	d := frames.Durable{
		Frame: frames.Frame{Channel: frames.Output, Type: "message.end", Payload: []byte("{}")}, N: 3,
		ID: "x",
	}
	if err := s.Apply(t.Context(), f, record.Change{Outbox: []frames.Durable{d}}, false); err != nil {
		t.Fatal(err)
	}
	for _, p := range []frames.Progress{
		{Session: n.ID, Acked: [2]int64{5, 0}},
		{Session: n.ID, Acked: [2]int64{4, 9}, Published: []int64{3}},
		{Session: n.ID, Published: []int64{3}},
		{Session: n.ID},
	} {
		if err := s.SaveProgress(t.Context(), []frames.Progress{p}); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := s.Load(t.Context(), n.ID, false)
	if err != nil || loaded.Stored != [2]int64{5, 9} || len(loaded.Outbox) != 0 || loaded.Run != nil {
		t.Errorf("loaded = %+v, %v", loaded, err)
	}
	if _, err := s.Load(t.Context(), "none", false); !errors.Is(err, fault.NotFound) {
		t.Errorf("no session: %v", err)
	}
}

// A page of messages ends before it becomes too large, but has at least one message.
func TestMessagePages(t *testing.T) {
	t.Parallel()
	s, _ := kept(t)
	n := addOne(t, s, nil)
	f := take(t, s, n.ID, "a", 60_000).Fence
	var c record.Change
	for i, size := range []int{10, 3 << 20, 2 << 20, 10, 5 << 20, 10} {
		c.Messages = append(c.Messages, record.Message{
			ID: fmt.Sprint("m", i), SessionID: n.ID, Role: record.Operator, Content: strings.Repeat("x",
				size), CreatedAt: int64(i),
		})
	}
	err := s.Apply(t.Context(), f, c, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		newestFirst bool
		want        []string
	}{{false, []string{"m0m1", "m2m3", "m4", "m5"}}, {true, []string{"m5", "m4", "m3m2", "m1m0"}}} {
		var pages []string
		part := record.Part{NewestFirst: c.newestFirst}
		for more := true; more; {
			var list []record.Message
			if list, more, err = s.Messages(t.Context(), n.ID, part, 3); err != nil || len(list) == 0 {
				t.Fatal(list, err)
			}
			var ids string
			for _, m := range list {
				ids += m.ID
				part.After, part.Before = m.Ordinal, 0
				if c.newestFirst {
					part.After, part.Before = 0, m.Ordinal
				}
			}
			pages = append(pages, ids)
		}
		if d := cmp.Diff(c.want, pages); d != "" {
			t.Error(d)
		}
	}
	if before, err := s.TurnsBefore(t.Context(), n.ID, 4); before != 3 || err != nil {
		t.Errorf("%d turns before the fourth, %v", before, err)
	}
	if at, err := s.Ordinal(t.Context(), n.ID, "m3"); at != 4 || err != nil {
		t.Errorf("ordinal = %d, %v", at, err)
	}
	if _, err := s.Ordinal(t.Context(), "other", "m3"); !errors.Is(err, fault.NotFound) {
		t.Errorf("in another session: %v", err)
	}
}

// Pages of a list continue where the last ended, also among entries with the same time.
func TestLists(t *testing.T) {
	t.Parallel()
	s, _ := kept(t)
	var ids []string
	for range 5 {
		ids = append(ids, addOne(t, s, nil).ID)
	}
	addOne(t, s, func(n *record.Session) { n.Owner = "ada"; n.CreatedAt = 50 })
	var got []string
	var after *page.Key
	for {
		list, err := s.List(t.Context(), "ada", "music", after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		for _, n := range list {
			got = append(got, n.ID)
			after = &page.Key{N: n.CreatedAt, S: n.ID}
		}
	}
	if len(got) != 6 || got[0] != ids[4] || got[4] != ids[0] {
		t.Errorf("listed %v of %v", got, ids)
	}
	open, err := s.Open(t.Context(), "ada", "music")
	if err != nil || len(open) != 6 {
		t.Errorf("open = %v, %v", open, err)
	}
	if list, err := s.Runs(t.Context(), ids[0], nil, 5); err != nil || len(list) != 0 {
		t.Errorf("runs = %v, %v", list, err)
	}
}

// A fork has copies of the messages that are not superseded, in order.
func TestForkCopies(t *testing.T) {
	t.Parallel()
	s, pool := kept(t)
	n := addOne(t, s, nil)
	f := take(t, s, n.ID, "a", 60_000).Fence
	var c record.Change
	for i := range 4 {
		c.Messages = append(c.Messages, record.Message{
			ID: fmt.Sprint("m",
				i), SessionID: n.ID, Role: record.Operator, Content: fmt.Sprint(i), RunID: "r", CreatedAt: int64(i),
		})
	}
	if err := s.Apply(t.Context(), f, c, false); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "update messages set superseded = true where id = 'm1'"); err != nil {
		t.Fatal(err)
	}
	fork := addOne(t, s, func(fork *record.Session) { fork.ResumeFrom = n.ID })
	list, err := s.History(t.Context(), fork.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for i, m := range list {
		said = append(said, m.Content)
		if m.Ordinal != int64(i)+1 || m.RunID != "" || m.CreatedAt == 1 {
			t.Errorf("message %d = %+v", i, m)
		}
	}
	if d := cmp.Diff([]string{"0", "2", "3"}, said); d != "" {
		t.Error(d)
	}
	got, _ := s.Session(t.Context(), "ada", fork.ID)
	if got.MessageCount != 3 || got.ResumeFrom != n.ID {
		t.Errorf("fork = %+v", got)
	}
	g := take(t, s, fork.ID, "a", 60_000).Fence
	next := record.Change{Messages: []record.Message{{
		ID: "own", SessionID: fork.ID, Role: record.Operator,
		Content: "own",
	}}}
	if err := s.Apply(context.WithoutCancel(t.Context()), g, next, false); err != nil {
		t.Error(err)
	}
	if at, _ := s.Ordinal(t.Context(), fork.ID, "own"); at != 4 {
		t.Errorf("its first own message is number %d", at)
	}
}
