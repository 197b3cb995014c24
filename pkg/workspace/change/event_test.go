package change_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"kaged.dev/pkg/workspace/change"
)

// observed is an observer that stores its events, without the roots.
type observed struct{ events []string }

func (o *observed) tell(events []change.Event) {
	for _, e := range events {
		rel := func(name string) string {
			if name == "" {
				return ""
			}
			rel, _ := filepath.Rel(e.Root, name)
			return rel
		}
		o.events = append(
			o.events,
			fmt.Sprintf("%d %s %s%s", e.Seq, e.Kind, rel(e.Path), map[bool]string{true: " from " + rel(e.From)}[e.From != ""]),
		)
	}
}

// An observer is told of each changed file once, numbered without gaps, and of no change that failed.
func TestObserver(t *testing.T) {
	t.Parallel()
	root, space := project(t)
	var told observed
	w := change.NewWriter(nil, told.tell)
	for _, name := range []string{"edit", "gone", "old", "both", "linked"} {
		must(t, os.WriteFile(filepath.Join(root, name), []byte(name), 0o644))
	}
	must(t, os.Link(filepath.Join(root, "linked"), filepath.Join(root, "other")))
	edit, wasEdit := at(t, space, "edit")
	gone, wasGone := at(t, space, "gone")
	old, wasOld := at(t, space, "old")
	both, wasBoth := at(t, space, "both")
	linked, wasLinked := at(t, space, "linked")
	moved, _ := at(t, space, "new/moved")
	bothTo, _ := at(t, space, "new/both")
	fresh, _ := at(t, space, "new/fresh")
	must(t, w.Apply(
		change.Change{At: edit, Was: wasEdit, Data: []byte("edited")},
		change.Change{At: gone, Was: wasGone, Remove: true},
		change.Change{At: old, Was: wasOld, Move: &moved},
		change.Change{At: both, Was: wasBoth, Move: &bothTo, Data: []byte("changed")},
		change.Change{At: linked, Was: wasLinked, Data: []byte("overwritten")},
		change.Change{At: fresh, Data: []byte("fresh")},
	))
	if err := w.Create(fresh, []byte("again")); err == nil {
		t.Error("a file was made twice")
	}
	must(t, w.Replace(fresh, []byte("again")))
	want := []string{
		"1 changed edit", "2 removed gone", "3 moved new/moved from old", "4 moved new/both from both", "5 changed new/both",
		"6 changed linked", "7 created new/fresh", "8 changed new/fresh",
	}
	if !slices.Equal(told.events, want) {
		t.Errorf("got  %q\nwant %q", told.events, want)
	}
}

// Writers of several goroutines report their changes in the order of their numbers.
func TestObserverIsToldInOrder(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 20
	_, space := project(t)
	var seqs []uint64 // guarded by the order that is proven here
	w := change.NewWriter(nil, func(events []change.Event) {
		for _, e := range events {
			seqs = append(seqs, e.Seq)
		}
	})
	done := make(chan error, writers)
	for i := range writers {
		go func() {
			for j := range each {
				p, err := space.Resolve("path", fmt.Sprintf("f%d-%d", i, j))
				if err == nil {
					err = w.Create(p, []byte("x"))
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range writers {
		must(t, <-done)
	}
	for i, seq := range seqs {
		if seq != uint64(i+1) {
			t.Fatalf("event %d has the number %d", i+1, seq)
		}
	}
	if len(seqs) != writers*each {
		t.Errorf("got %d events, want %d", len(seqs), writers*each)
	}
}
