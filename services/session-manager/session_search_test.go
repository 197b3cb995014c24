package sessionmanager

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// Sessions of all projects are listed newest first, and found by their names and messages after those are
// committed; another operator's sessions never are.
func TestSearchSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	named, spoken := n.session("ada"), n.session("ada")
	for id, name := range map[string]string{named: "Übersicht.go", spoken: "animals"} {
		if _, err := n.Sessions.UpdateSession(as(t, "ada"), &apiv1.UpdateSessionRequest{
			Id: id, Label: structpb.NewStringValue(name),
		}); err != nil {
			t.Fatal(err)
		}
	}
	w.harness.expect(func(p *play) { p.model(); p.turn(1, false, text("It is a zebra.")); p.complete(1) })
	posted := n.post("ada", spoken, "Which animal has stripes?")
	n.run("ada", spoken, posted.GetRunId())
	search := func(who string, q *string) (ids []string) {
		t.Helper()
		resp, err := n.Sessions.SearchSessions(as(t, who), &apiv1.SearchSessionsRequest{Q: q})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range resp.GetItems() {
			ids = append(ids, s.GetId()+" "+s.GetMatchedMessageId())
		}
		return ids
	}
	if got, want := search("ada", nil), []string{spoken + " ", named + " "}; !slices.Equal(got, want) {
		t.Errorf("all sessions are %q, want %q", got, want)
	}
	// Each session names the latest of its runs that have ended.
	for _, q := range []*string{nil, new("stripes")} {
		eventually(t, "the last run is named", func() error {
			resp, err := n.Sessions.SearchSessions(as(t, "ada"), &apiv1.SearchSessionsRequest{Q: q})
			if err != nil {
				return err
			}
			for _, s := range resp.GetItems() {
				last := s.GetLastRun()
				if s.GetId() == named && last != nil || s.GetId() == spoken && (last.GetId() != posted.GetRunId() ||
					last.GetState() != apiv1.RunState_RUN_STATE_COMPLETED || last.GetEndedAt() == 0 || last.GetError() != nil) {
					return fmt.Errorf("session %s has the last run %v", s.GetId(), last)
				}
			}
			if len(resp.GetItems()) == 0 {
				return errors.New("nothing is found")
			}
			return nil
		})
	}
	for q, want := range map[string]string{
		"Übersicht go": named + " ", "STRIPES which": spoken + " " + posted.GetId(),
		"zeb": spoken + " " + n.messages("ada", spoken)[1].GetId(),
	} {
		eventually(t, q+" is found", func() error {
			if got := search("ada", &q); len(got) != 1 || got[0] != want {
				return fmt.Errorf("got %q, want %q", got, want)
			}
			return nil
		})
		if got := search("eve", &q); len(got) != 0 {
			t.Errorf("eve finds %q", got)
		}
	}
	for _, q := range []string{"", " ./ ", strings.Repeat("x", 201), strings.Repeat("x ", 17), "\x00"} {
		_, err := n.Sessions.SearchSessions(as(t, "ada"), &apiv1.SearchSessionsRequest{Q: &q})
		if f := refused(t, err, fault.ValidationFailed); fmt.Sprint(f.Details["fields"]) != "[q]" {
			t.Errorf("%q: details %v", q, f.Details)
		}
	}
	_, err := n.Sessions.SearchSessions(as(t, "ada"), &apiv1.SearchSessionsRequest{ProjectId: "nope"})
	refused(t, err, fault.NotFound)
}
