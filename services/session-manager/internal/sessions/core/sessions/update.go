package sessions

import (
	"context"
	"strings"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// Field is a field of a request that distinguishes null from absent.
type Field[T any] struct {
	// Given says that the field is present.
	Given bool
	// Value is nil for null.
	Value *T
}

// Edit changes a session. An absent field changes nothing, null clears the value.
type Edit struct {
	Label, Model              Field[string]
	MaxSteps, MaxOutputTokens Field[int64]
	Budget                    Field[contract.Budget]
	// Issue is the number of an issue of the session's project.
	Issue Field[int64]
}

// The bounds of overrides.
const (
	maxSteps        = 100
	maxOutputTokens = 65536
	maxModel        = 300
)

// Update changes a session and returns the changed session. It fails with bad_request if e is empty, with
// validation_failed (HTTP 422 for a number out of range), with not_found for the session or the issue, with gone,
// and with conflict for another issue while a run is pending, active or to be resumed.
func (s *Service) Update(ctx context.Context, id string, e Edit) (record.Session, error) {
	patch, err := e.patch()
	if err != nil {
		return record.Session{}, err
	}
	l, release, err := s.acquire(ctx, id)
	if err != nil {
		return record.Session{}, err
	}
	defer release()
	if patch.Issue != nil {
		if err := s.checkIssue(ctx, l.Record().ProjectID, *patch.Issue); err != nil {
			return record.Session{}, err
		}
	}
	err = l.Update(ctx, "", func(current record.Session) (record.Change, error) {
		if current.State == record.Ended {
			return record.Change{}, record.Gone()
		}
		if patch.Issue != nil && *patch.Issue != current.Issue && (current.CurrentRun != "" || current.ResumeRun != "") {
			return record.Change{}, fault.New(fault.Conflict,
				"The session works on another issue until its run has ended; wait for it or cancel it.").
				With("current_run", current.CurrentRun).With("current_state", string(current.State))
		}
		c := record.Change{At: now(), Session: patch}
		c.Audit = append(c.Audit, about(ctx, current, "session.updated", fields(patch)))
		return c, nil
	}, nil)
	return l.Record(), err
}

func (e Edit) patch() (record.Patch, error) {
	var p record.Patch
	if !e.Label.Given && !e.Model.Given && !e.MaxSteps.Given && !e.MaxOutputTokens.Given && !e.Issue.Given &&
		!e.Budget.Given {
		return p, fault.New(fault.BadRequest,
			"The body must hold at least one of label, model_override, max_steps_override, max_output_tokens_override, "+
				"issue_number and budget.")
	}
	if e.Label.Given {
		label, err := cleanLabel("label", valueOr(e.Label, ""))
		if err != nil {
			return p, err
		}
		p.Label = &label
	}
	if e.Model.Given {
		if e.Model.Value != nil {
			if err := checkModel(*e.Model.Value); err != nil {
				return p, err
			}
		}
		model := valueOr(e.Model, "")
		p.Model = &model
	}
	if e.Budget.Given {
		budget := valueOr(e.Budget, contract.Budget{})
		p.Budget = &budget
	}
	var err error
	if p.MaxSteps, err = override("max_steps_override", e.MaxSteps, maxSteps); err != nil {
		return p, err
	}
	if p.MaxOutputTokens, err = override("max_output_tokens_override", e.MaxOutputTokens, maxOutputTokens); err != nil {
		return p, err
	}
	if e.Issue.Given {
		number := valueOr(e.Issue, 0)
		if e.Issue.Value != nil && number < 1 {
			return p, check.Field("issue_number", "issue_number must be the number of an issue, from 1, or null.")
		}
		p.Issue = &number
	}
	return p, nil
}

func valueOr[T any](f Field[T], otherwise T) T {
	if f.Value != nil {
		return *f.Value
	}
	return otherwise
}

// override checks a number; null becomes 0, which clears the override.
func override(field string, f Field[int64], most int64) (*int32, error) {
	if !f.Given {
		return nil, nil
	}
	var n int32
	if f.Value != nil {
		if *f.Value < 1 || *f.Value > most {
			return nil, check.Field(field, "%s must be between 1 and %d.", field, most).WithHTTP(422)
		}
		n = int32(*f.Value)
	}
	return &n, nil
}

// checkModel refuses text that is not "provider:model". An unknown provider is noticed when the model is used.
func checkModel(model string) error {
	const field = "model_override"
	if err := check.Text(field, model, maxModel); err != nil {
		return err
	}
	if provider, name, ok := strings.Cut(model, ":"); !ok || provider == "" || name == "" {
		return check.Field(field, "model_override must be of the form provider:model.")
	}
	return nil
}

// fields returns the changes of a patch for its audit record.
func fields(p record.Patch) map[string]any {
	out := map[string]any{}
	if p.Label != nil {
		out["label"] = *p.Label
	}
	if p.Model != nil {
		out["model_override"] = *p.Model
	}
	if p.MaxSteps != nil {
		out["max_steps_override"] = *p.MaxSteps
	}
	if p.MaxOutputTokens != nil {
		out["max_output_tokens_override"] = *p.MaxOutputTokens
	}
	if p.Issue != nil {
		out["issue_number"] = *p.Issue
	}
	if p.Budget != nil {
		out["budget"] = budgetFields(*p.Budget)
	}
	return out
}

// budgetFields returns a budget for its audit record, nil if it is cleared.
func budgetFields(b contract.Budget) any {
	if !b.Set() {
		return nil
	}
	return map[string]any{
		"usd": b.Limit.USD(), "tokens": b.Limit.Tokens, "calls": b.Limit.Calls, "unpriced_allowed": b.AllowUnpriced,
		"walltime_ms": b.Walltime.Milliseconds(),
	}
}
