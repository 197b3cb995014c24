package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/frametype"
	"kaged.dev/pkg/termtext"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// attendant answers requests for approval of a run's tool calls with the operator's answers. One goroutine may use it.
//
// Goroutines: one per request without an answer yet, and one of [attendant.typing]; [attendant.leave] ends them.
type attendant struct {
	app          kit.App
	ctx          context.Context
	client       *client.Client
	session, run string
	yes          bool
	// open has the unanswered requests by id, each with the function that ends its question.
	open map[string]context.CancelFunc
	work sync.WaitGroup
	keys *kit.Keyboard // allows one question at a time
}

// request is a request for approval in the form of frames.
type request struct {
	ApprovalID   string `json:"approval_id"`
	RunID        string `json:"run_id"`
	InvocationID string `json:"invocation_id"`
	Subject      contract.Subject
	State        string
	ResolvedBy   string `json:"resolved_by"`
	StandingID   string `json:"standing_approval_id"`
	Comment      string
}

func attend(ctx context.Context, a kit.App, c *client.Client, session, run string, yes bool) *attendant {
	return &attendant{
		app: a, ctx: ctx, client: c, session: session, run: run, yes: yes,
		open: map[string]context.CancelFunc{}, keys: kit.NewKeyboard(),
	}
}

// typing sends each line that is typed while no question is open to the session. The active run reads it at its next
// step. [attendant.leave] ends it.
func (t *attendant) typing() {
	t.work.Go(func() {
		t.keys.Lines(t.app, func(line string) {
			body := map[string]any{"content": line, "steer": true}
			path := "/api/v1/sessions/" + url.PathEscape(t.session) + "/messages"
			if err := t.client.Do(t.ctx, http.MethodPost, path, body, nil); err != nil && t.ctx.Err() == nil {
				t.say("the line was not sent: %s", kit.SentenceFor(t.app.Stderr, err))
			}
		})
	})
}

// frame handles a frame about an approval of the run.
func (t *attendant) frame(f client.Frame) {
	if f.Type != frametype.ApprovalRequested.Name && f.Type != frametype.ApprovalResolved.Name {
		return
	}
	var r request
	if json.Unmarshal(f.Payload, &r) != nil || r.RunID != t.run {
		return
	}
	if end := t.open[r.ApprovalID]; end != nil {
		end()
		delete(t.open, r.ApprovalID)
	}
	if f.Type == frametype.ApprovalRequested.Name {
		var ctx context.Context
		ctx, t.open[r.ApprovalID] = context.WithCancel(t.ctx)
		t.work.Go(func() { t.keys.Ask(func() { t.answer(ctx, r) }) })
	}
}

// leave ends all questions, and typing.
func (t *attendant) leave() {
	t.keys.Close()
	for _, end := range t.open {
		end()
	}
	t.work.Wait()
}

// path returns the API path of a request.
func (t *attendant) path(r request) string {
	return "/api/v1/sessions/" + t.session + "/approvals/" + r.ApprovalID
}

// answer asks the operator and sends the answer to the daemon.
func (t *attendant) answer(ctx context.Context, r request) {
	var whole struct {
		Subject contract.Subject
		Hash    string
		Offers  []kit.Offer
	}
	if err := t.client.Do(ctx, http.MethodGet, t.path(r), nil, &whole); err != nil {
		if ctx.Err() == nil {
			t.say("the request for approval cannot be read: %s", kit.SentenceFor(t.app.Stderr, err))
		}
		return
	}
	if ctx.Err() != nil {
		return
	}
	body := map[string]any{"decision": "approve", "hash": whole.Hash}
	choice, err := t.app.Choose(ctx, t.yes, whole.Subject.Proto(), whole.Offers)
	switch {
	case ctx.Err() != nil:
		return // another client has answered it, or it has expired
	case errors.Is(err, fault.ApprovalRequired):
		body["decision"], body["comment"] = "deny", noTerminal
	case err != nil || !choice.Yes:
		body["decision"] = "deny"
	case choice.Scope != "":
		body["scope"], body["kind"] = choice.Scope, choice.Kind
	}
	if err := t.client.Do(ctx, http.MethodPost, t.path(r), body, nil); err != nil && ctx.Err() == nil &&
		!errors.Is(err, fault.Conflict) {
		t.say("the answer did not reach the daemon: %s", kit.SentenceFor(t.app.Stderr, err))
	}
}

func (t *attendant) say(format string, args ...any) {
	fmt.Fprintf(t.app.Stderr, "kaged: "+format+"\n", args...)
}

// noTerminal is the comment of a denial without an operator.
const noTerminal = "no terminal to ask on (--yes approves)"

// waits returns the line for a call that waits for approval.
func (r request) waits() string {
	line := "? " + termtext.Line(r.Subject.Tool) + " needs approval: "
	if subject := kit.SubjectLine(r.Subject.Proto()); subject != "" {
		line += subject + ": "
	}
	return line + kit.Brief(strings.Join(r.Subject.Reasons, " "), 300)
}

// ended returns the line for the end of a request.
func (r request) ended() string {
	if r.Comment == noTerminal {
		return "! " + r.State + " automatically: " + r.Comment
	}
	line := "! " + r.State
	if r.ResolvedBy != "" {
		line += " by " + kit.Brief(r.ResolvedBy, 80)
	}
	if r.StandingID != "" {
		line += " (standing approval " + termtext.Line(r.StandingID) + ")"
	}
	if r.Comment != "" {
		line += ": " + kit.Brief(r.Comment, 200)
	}
	return line
}
