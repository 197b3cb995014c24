// Package admin serves the administrators of a shared deployment. They see counts, spend and states of
// operators, and never content.
package admin

import (
	"context"
	"time"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/page"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
	"kaged.dev/services/session-manager/internal/operators/core/operatorconfig"
	"kaged.dev/services/session-manager/internal/operators/core/workspaces"
)

// Operator is an operator with counts and sums.
type Operator struct {
	ID, Workspace          string
	Sessions, Running      int
	LastActiveAt           int64
	NanoUSD, Tokens, Calls int64
	localconfig.Rule
}

// Workspace is a workspace with the number of runs at work in it.
type Workspace struct {
	workspaces.Assignment
	AssignedAt int64
	Running    int
}

// Store keeps the settings of administrators.
type Store interface {
	// Operators returns up to limit operators after one, with their use since a time; with only, that one alone.
	Operators(ctx context.Context, since int64, after, only string, limit int) ([]Operator, error)
	// SetRule replaces the limits and the budget of an operator, SetDisabled when it was disabled, 0 for never.
	SetRule(ctx context.Context, operator string, r localconfig.Rule, record audit.Record) error
	SetDisabled(ctx context.Context, operator string, at int64, record audit.Record) error
	// Workspaces returns the workspaces with some names.
	Workspaces(ctx context.Context, names []string) ([]Workspace, error)
	// SetState changes the state of a workspace, Release takes a draining one from its operator. They report whether there
	// was one.
	SetState(ctx context.Context, name string, state workspaces.State, record audit.Record) (bool, error)
	Release(ctx context.Context, name string, record audit.Record) (bool, error)
}

// Audit is the record of all operators.
type Audit interface {
	// Everyone returns a page of the entries of all operators, or of one, without their facts.
	Everyone(
		ctx context.Context, operator string, f audit.Filter, limit int32, cursor string,
	) (page.Page[audit.Record], error)
	// Record appends records.
	Record(ctx context.Context, records []audit.Record) error
}

// Volume looks into workspaces.
type Volume interface {
	// Empty reports whether a folder of a workspace is empty.
	Empty(ctx context.Context, workspace, root string) (bool, error)
}

// Service answers administrators. It is safe for concurrent use.
type Service struct {
	Store  Store
	Audit  Audit
	Volume Volume
	Places *workspaces.Workspaces
	// Configs has the configurations of operators.
	Configs *operatorconfig.Service
	// Root is the folder of projects in a workspace.
	Root string
}

// spendOf is the time of the shown use of models.
const spendOf = 30 * 24 * time.Hour

// allow fails with not_found for everyone but administrators of a shared deployment.
func (s *Service) allow(ctx context.Context) (admin string, err error) {
	caller := ident.CallerFrom(ctx)
	if !s.Places.Shared || caller.Role != ident.Admin {
		return "", fault.New(fault.NotFound, "There is nothing at this address.")
	}
	return caller.UserID, nil
}

// about returns a record of an action of an administrator, for the operator concerned.
func about(ctx context.Context, operator, event string, payload map[string]any) audit.Record {
	payload["administrator"] = ident.CallerFrom(ctx).UserID
	r := audit.New(ctx, event, payload)
	r.UserID = operator
	return r.Clean()
}

// noteRead records a read for each operator that it shows.
func (s *Service) noteRead(ctx context.Context, what string, operators []string) error {
	seen := map[string]bool{}
	var records []audit.Record
	for _, o := range operators {
		if o != "" && !seen[o] {
			seen[o] = true
			records = append(records, about(ctx, o, "admin.read", map[string]any{"resource": what}))
		}
	}
	return s.Audit.Record(ctx, records)
}

// Operators returns a page of operators.
func (s *Service) Operators(ctx context.Context, limit int32, cursor string) (page.Page[Operator], error) {
	if _, err := s.allow(ctx); err != nil {
		return page.Page[Operator]{}, err
	}
	req, err := page.Parse("operators", limit, cursor)
	if err != nil {
		return page.Page[Operator]{}, err
	}
	after := ""
	if req.After != nil {
		after = req.After.S
	}
	list, err := s.Store.Operators(ctx, time.Now().Add(-spendOf).UnixMilli(), after, "", int(req.Fetch()))
	if err != nil {
		return page.Page[Operator]{}, err
	}
	p := page.Cut(req, list, func(o Operator) page.Key { return page.Key{S: o.ID} })
	var shown []string
	for _, o := range p.Items {
		shown = append(shown, o.ID)
	}
	return p, s.noteRead(ctx, "operators", shown)
}

// operator returns an operator that the deployment knows.
func (s *Service) operator(ctx context.Context, id string) (Operator, error) {
	if !check.Findable(id) {
		return Operator{}, unknown(id)
	}
	list, err := s.Store.Operators(ctx, time.Now().Add(-spendOf).UnixMilli(), "", id, 1)
	if err == nil && len(list) == 0 {
		err = unknown(id)
	}
	if err != nil {
		return Operator{}, err
	}
	return list[0], nil
}

func unknown(id string) error {
	return fault.New(fault.NotFound, "The deployment knows no operator %.80q.", id)
}

// SetLimits replaces the limits and the budget of an operator.
func (s *Service) SetLimits(ctx context.Context, id string, limits *localconfig.Limits, budget *config.Budget) (
	Operator, error,
) {
	if _, err := s.allow(ctx); err != nil {
		return Operator{}, err
	}
	if err := valid(limits, budget); err != nil {
		return Operator{}, err
	}
	if _, err := s.operator(ctx, id); err != nil {
		return Operator{}, err
	}
	payload := map[string]any{"limits": limits, "budget": budget}
	rule := localconfig.Rule{Limits: limits, Budget: budget}
	err := s.Store.SetRule(ctx, id, rule, about(ctx, id, "operator.limited", payload))
	if err != nil {
		return Operator{}, err
	}
	return s.operator(ctx, id)
}

// maxBound is the highest bound of a budget.
const maxBound = 1 << 50

func valid(l *localconfig.Limits, b *config.Budget) error {
	if l != nil {
		for field, n := range map[string]int{
			"sessions_per_project": l.SessionsPerProject, "sessions_per_operator": l.SessionsPerOperator,
			"requests_per_minute": l.RequestsPerMinute, "messages_per_minute": l.MessagesPerMinute,
			"validations_per_minute": l.ValidationsPerMinute, "dsl_writes_per_minute": l.DSLWritesPerMinute,
			"audit_reads_per_minute": l.AuditReadsPerMinute,
		} {
			if n < 0 || n > config.MaxPerMinute {
				return check.Field(field, "%s must be from 1 to %d.", field, config.MaxPerMinute)
			}
		}
		if l.MaxSteps < 0 || l.MaxSteps > 100 {
			return check.Field("max_steps", "max_steps must be from 1 to 100.")
		}
		if l.LiveAgents < 0 || l.LiveAgents > config.MaxLiveAgents {
			return check.Field("live_agents", "live_agents must be from 1 to %d.", config.MaxLiveAgents)
		}
	}
	if b == nil {
		return nil
	}
	if !(b.USD >= 0 && b.USD <= maxBound) || b.Tokens < 0 || b.Tokens > maxBound || b.Calls < 0 || b.Calls > maxBound {
		return check.Field("budget", "A bound of a budget must not be negative.")
	}
	switch b.Per {
	case "", config.PerDay, config.PerWeek, config.PerMonth:
		return nil
	}
	return check.Field("budget.per", "per must be day, week or month.")
}

// Disable refuses an operator's requests, or with enable takes them again.
func (s *Service) Disable(ctx context.Context, id string, enable bool) (Operator, error) {
	admin, err := s.allow(ctx)
	if err != nil {
		return Operator{}, err
	}
	if id == admin && !enable {
		return Operator{}, fault.New(fault.Conflict, "You cannot disable yourself; ask another administrator.").
			With("reason", "own_operator")
	}
	o, err := s.operator(ctx, id)
	if err != nil || enable == (o.DisabledAt == 0) {
		return o, err
	}
	at, event := time.Now().UnixMilli(), "operator.disabled"
	if enable {
		at, event = 0, "operator.enabled"
	}
	if err := s.Store.SetDisabled(ctx, id, at, about(ctx, id, event, map[string]any{})); err != nil {
		return Operator{}, err
	}
	return s.operator(ctx, id)
}

// Workspaces returns the workspaces of the deployment.
func (s *Service) Workspaces(ctx context.Context) ([]Workspace, error) {
	if _, err := s.allow(ctx); err != nil {
		return nil, err
	}
	list, err := s.Store.Workspaces(ctx, s.Places.Names)
	if err != nil {
		return nil, err
	}
	var shown []string
	for _, w := range list {
		shown = append(shown, w.Operator)
	}
	return list, s.noteRead(ctx, "workspaces", shown)
}

func (s *Service) workspace(ctx context.Context, name string) (Workspace, error) {
	for _, known := range s.Places.Names {
		if known != name {
			continue
		}
		list, err := s.Store.Workspaces(ctx, []string{name})
		if err != nil || len(list) == 1 {
			return append(list, Workspace{})[0], err
		}
	}
	return Workspace{}, fault.New(fault.NotFound, "The deployment has no workspace %.80q.", name)
}

// SetState drains a workspace or makes it active.
func (s *Service) SetState(ctx context.Context, name string, state workspaces.State) (Workspace, error) {
	if _, err := s.allow(ctx); err != nil {
		return Workspace{}, err
	}
	w, err := s.workspace(ctx, name)
	if err != nil || w.State == state {
		return w, err
	}
	event := "workspace.activated"
	if state == workspaces.Draining {
		event = "workspace.drained"
	}
	record := about(ctx, w.Operator, event, map[string]any{"workspace": name})
	if _, err := s.Store.SetState(ctx, name, state, record); err != nil {
		return Workspace{}, err
	}
	return s.workspace(ctx, name)
}

// Release takes a drained workspace without projects from its operator.
func (s *Service) Release(ctx context.Context, name string) (Workspace, error) {
	if _, err := s.allow(ctx); err != nil {
		return Workspace{}, err
	}
	w, err := s.workspace(ctx, name)
	switch {
	case err != nil:
		return Workspace{}, err
	case w.Operator == "":
		return w, nil
	case w.State != workspaces.Draining:
		return Workspace{}, fault.New(fault.Conflict, "The workspace %s is active; drain it first.", name).
			With("reason", "not_drained")
	case w.Running > 0:
		return Workspace{}, fault.New(fault.Conflict, "%d runs of the workspace %s have not ended.", w.Running, name).
			With("reason", "runs_at_work")
	}
	// The call is the service's own: the workspace is another operator's.
	own := ident.WithCaller(ctx, ident.Caller{RequestID: ident.CallerFrom(ctx).RequestID})
	empty, err := s.Volume.Empty(own, name, s.Root)
	if err != nil {
		return Workspace{}, err
	}
	if !empty {
		return Workspace{}, fault.New(
			fault.Conflict, "The volume of the workspace %s has files in %s; remove them first.", name, s.Root,
		).With("reason", "not_empty")
	}
	if _, err := s.Store.Release(ctx, name, about(ctx, w.Operator, "workspace.released", map[string]any{
		"workspace": name,
	})); err != nil {
		return Workspace{}, err
	}
	return s.workspace(ctx, name)
}

// Records returns a page of the record of all operators, or of one, without facts.
func (s *Service) Records(
	ctx context.Context, operator string, f audit.Filter, limit int32, cursor string,
) (page.Page[audit.Record], error) {
	if _, err := s.allow(ctx); err != nil {
		return page.Page[audit.Record]{}, err
	}
	p, err := s.Audit.Everyone(ctx, operator, f, limit, cursor)
	if err != nil {
		return p, err
	}
	var shown []string
	for _, r := range p.Items {
		shown = append(shown, r.UserID)
	}
	return p, s.noteRead(ctx, "audit", shown)
}
