package bus_test

import (
	"errors"
	"slices"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit/bustest"
)

// A notice reaches every listener of its subject, in order, also after a restart of the server. During the outage the
// sender gets an error.
func TestNotices(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	sender := server.Connect(t)
	type heard = chan string
	listeners := []heard{make(heard, 10), make(heard, 10)}
	for _, got := range listeners {
		hear := func(m []byte) {
			select {
			case got <- string(m):
			case <-t.Context().Done():
			}
		}
		if err := server.Connect(t).Listen(t.Context(), "things.changed", hear); err != nil {
			t.Fatal(err)
		}
	}
	if err := sender.Notify(t.Context(), "other.things", []byte("unheard")); err != nil {
		t.Fatal(err)
	}
	if err := sender.Notify(t.Context(), "things.changed", []byte("one"), []byte("two")); err != nil {
		t.Fatal(err)
	}
	for _, got := range listeners {
		if list := []string{<-got, <-got}; !slices.Equal(list, []string{"one", "two"}) {
			t.Errorf("heard %v", list)
		}
	}
	server.Stop()
	for {
		err := sender.Notify(t.Context(), "things.changed", []byte("lost"))
		if errors.Is(err, fault.Unavailable) {
			break
		}
		if err != nil {
			t.Fatalf("got %v, want unavailable", err)
		}
	}
	server.Start()
	for _, got := range listeners {
		for said := ""; said != "back"; {
			_ = sender.Notify(t.Context(), "things.changed", []byte("back"))
			select {
			case said = <-got:
			default:
			}
		}
	}
}
