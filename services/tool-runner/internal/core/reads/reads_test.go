package reads_test

import (
	"errors"
	"fmt"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/reads"
)

// A record belongs to one agent in one session and to one content. An ended or dropped session has no records.
func TestRecords(t *testing.T) {
	t.Parallel()
	r := reads.New(2, 3)
	one, two := reads.Sum([]byte("1")), reads.Sum([]byte("2"))
	r.Saw("s", "a", "/f", one)
	for _, c := range []struct {
		session, agent, path string
		content              reads.Hash
		want                 error
	}{
		{"s", "a", "/f", one, nil},
		{"s", "a", "/f", two, fault.FileChangedSinceRead},
		{"s", "b", "/f", one, fault.FileNotRead},
		{"t", "a", "/f", one, fault.FileNotRead},
		{"s", "a", "/g", one, fault.FileNotRead},
	} {
		if err := r.Check(c.session, c.agent, c.path, "./f", c.content); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	r.Saw("s", "a", "/f", two)
	if err := r.Check("s", "a", "/f", "./f", two); err != nil {
		t.Error(err)
	}
	for i := range 3 {
		r.Saw("s", "a", fmt.Sprint("/", i), one)
	}
	if err := r.Check("s", "a", "/f", "./f", two); !errors.Is(err, fault.FileNotRead) {
		t.Errorf("the oldest of four files: %v", err)
	}
	r.EndSession("s")
	if err := r.Check("s", "a", "/2", "./2", one); !errors.Is(err, fault.FileNotRead) {
		t.Errorf("an ended session: %v", err)
	}
	for i := range 3 {
		r.Saw(fmt.Sprint(i), "a", "/f", one)
	}
	if err := r.Check("0", "a", "/f", "./f", one); !errors.Is(err, fault.FileNotRead) {
		t.Errorf("the oldest of three sessions: %v", err)
	}
}
