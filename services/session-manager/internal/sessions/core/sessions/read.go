package sessions

import (
	"context"
	"errors"
	"slices"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/page"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// Get returns one session, which may have ended. It fails with not_found.
func (s *Service) Get(ctx context.Context, id string) (record.Session, error) { return s.find(ctx, id) }

// Use returns the model use of the caller's session.
func (s *Service) Use(ctx context.Context, id string) (record.Use, error) {
	return s.Store.Use(ctx, ident.CallerFrom(ctx).UserID, id)
}

// List returns a page of a project's sessions, newest first. It fails with not_found and validation_failed.
func (s *Service) List(
	ctx context.Context, project string, limit int32, cursor string,
) (page.Page[record.Session], error) {
	req, err := page.Parse("sessions", limit, cursor)
	if err != nil {
		return page.Page[record.Session]{}, err
	}
	owner := ident.CallerFrom(ctx).UserID
	if err := s.Projects.Known(ctx, owner, project); err != nil {
		return page.Page[record.Session]{}, err
	}
	rows, err := s.Store.List(ctx, owner, project, req.After, req.Fetch())
	return page.Cut(req, rows, func(r record.Session) page.Key { return page.Key{N: r.CreatedAt, S: r.ID} }), err
}

// MessageOrder selects messages and their order.
type MessageOrder struct {
	// Since is a message id; the messages after it are selected, all for "".
	Since string
	// NewestFirst reverses the order.
	NewestFirst bool
}

// Messages returns a page of a session's messages and, with NewestFirst, the number of the operator's messages
// before the page. It fails with not_found, and with validation_failed for an unknown message and for a cursor from
// the other order.
func (s *Service) Messages(
	ctx context.Context, id string, order MessageOrder, limit int32, cursor string,
) (page.Page[record.Message], *int32, error) {
	none, list := page.Page[record.Message]{}, "messages"
	if order.NewestFirst {
		list = "newest_messages"
	}
	req, err := page.Parse(list, limit, cursor)
	if err != nil {
		return none, nil, err
	}
	if _, err := s.find(ctx, id); err != nil {
		return none, nil, err
	}
	part := record.Part{NewestFirst: order.NewestFirst}
	if order.Since != "" {
		if part.After, err = s.ordinal(ctx, id, order.Since); err != nil {
			return none, nil, err
		}
	}
	switch {
	case req.After != nil && order.NewestFirst:
		part.Before = req.After.N
	case req.After != nil:
		part.After = max(part.After, req.After.N)
	}
	rows, more, err := s.Store.Messages(ctx, id, part, int32(req.Limit))
	if err != nil {
		return none, nil, err
	}
	p := page.Of(req, rows, more, func(m record.Message) page.Key { return page.Key{N: m.Ordinal} })
	if !order.NewestFirst {
		return p, nil, nil
	}
	first := part.After + 1
	if len(rows) > 0 {
		first = rows[len(rows)-1].Ordinal
	}
	before, err := s.Store.TurnsBefore(ctx, id, first)
	return p, &before, err
}

func (s *Service) ordinal(ctx context.Context, session, message string) (int64, error) {
	if check.Findable(message) {
		n, err := s.Store.Ordinal(ctx, session, message)
		if !errors.Is(err, fault.NotFound) {
			return n, err
		}
	}
	return 0, check.Field("since", "since is not a message of this session.")
}

// Runs returns a page of a session's runs, oldest first, with their first invocations, at most maxListed together.
// It fails with not_found and validation_failed.
func (s *Service) Runs(ctx context.Context, id string, limit int32, cursor string) (page.Page[RunDetail], error) {
	none := page.Page[RunDetail]{}
	req, err := page.Parse("runs", limit, cursor)
	if err != nil {
		return none, err
	}
	if _, err := s.find(ctx, id); err != nil {
		return none, err
	}
	rows, err := s.Store.Runs(ctx, id, req.After, req.Fetch())
	if err != nil {
		return none, err
	}
	list, ids, places := make([]RunDetail, len(rows)), make([]string, len(rows)), make(map[string]int, len(rows))
	for i, r := range rows {
		list[i].Run, ids[i], places[r.ID] = r, r.ID, i
	}
	invocations, err := s.Store.InvocationsOf(ctx, ids, maxListed)
	for _, i := range invocations {
		of := &list[places[i.RunID]]
		of.Invocations = append(of.Invocations, i)
	}
	return page.Cut(req, list, func(r RunDetail) page.Key { return page.Key{N: r.CreatedAt, S: r.ID} }), err
}

// RunDetail is a run with the steps of its root agent and its first invocations.
type RunDetail struct {
	record.Run
	Steps       []transcript.Step
	Invocations []record.Invocation
}

// maxInvocations bounds the invocations returned with one run; [Service.Invocations] has all.
const maxInvocations = 200

// maxListed bounds the invocations returned with a page of runs.
const maxListed = 1000

// Run returns one run with its steps and first invocations. It fails with not_found.
func (s *Service) Run(ctx context.Context, session, run string) (RunDetail, error) {
	if _, err := s.find(ctx, session); err != nil {
		return RunDetail{}, err
	}
	return s.detail(ctx, session, run)
}

func (s *Service) detail(ctx context.Context, session, run string) (RunDetail, error) {
	if !check.Findable(run) {
		return RunDetail{}, record.RunNotFound(run)
	}
	r, err := s.Store.Run(ctx, session, run)
	if err != nil {
		return RunDetail{}, err
	}
	steps, err := s.Store.ShownSteps(ctx, run, "")
	if err != nil {
		return RunDetail{}, err
	}
	invocations, err := s.Store.Invocations(ctx, session, run, nil, maxInvocations)
	return RunDetail{Run: r, Steps: steps, Invocations: invocations}, err
}

// ToolResult returns a tool result of a run with its call, of the root agent or of an agent below it; if two have the
// same id, that of the root, else the later one. It fails with not_found.
func (s *Service) ToolResult(ctx context.Context, session, run, call string) ([]llm.Block, error) {
	r, err := s.Run(ctx, session, run)
	if err != nil {
		return nil, err
	}
	if blocks := resultOf(r.Steps, call); blocks != nil {
		return blocks, nil
	}
	var below []string
	var next *page.Key
	for {
		list, err := s.Store.Invocations(ctx, session, run, next, maxInvocations)
		if err != nil {
			return nil, err
		}
		for _, i := range list {
			below = append(below, i.ID)
			next = &page.Key{N: i.StartedAt, S: i.ID}
		}
		if len(list) < maxInvocations {
			break
		}
	}
	for _, id := range slices.Backward(below) {
		steps, err := s.Store.ShownSteps(ctx, run, id)
		if err != nil {
			return nil, err
		}
		if blocks := resultOf(steps, call); blocks != nil {
			return blocks, nil
		}
	}
	return nil, fault.New(fault.NotFound, "There is no result of a call %q in this run.", call)
}

// resultOf returns the last result of a call in an agent's steps, behind the call; nil if there is none.
func resultOf(steps []transcript.Step, call string) []llm.Block {
	for _, step := range slices.Backward(steps) {
		for _, result := range step.Results {
			if result.CallID == call {
				asked := func(b llm.Block) bool { return b.Call != nil && b.Call.ID == call }
				blocks := slices.DeleteFunc(slices.Clone(step.Blocks), func(b llm.Block) bool { return !asked(b) })
				return append(blocks, llm.Block{Result: &result})
			}
		}
	}
	return nil
}
