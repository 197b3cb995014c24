package sessions

import (
	"context"
	"errors"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/sessions/core/notices"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// NewSession is the request for a new session.
type NewSession struct {
	ProjectID string
	// Name and Label are two names of the same field; if both are given they must be equal.
	Name, Label string
	// ResumeFrom is a session of the same project; the new session continues its conversation. It may be "".
	ResumeFrom string
	// Issue is the number of the project's issue that the session works on, or 0.
	Issue int64
	// Budget limits all runs of the session together.
	Budget contract.Budget
}

// Create creates a session on the present snapshot of the project. It starts no run. It fails with
// validation_failed, with not_found for the project, the issue or ResumeFrom, with project_not_ready, and with
// local_config_invalid.
func (s *Service) Create(ctx context.Context, in NewSession) (record.Session, error) {
	label, err := in.label()
	if err != nil {
		return record.Session{}, err
	}
	owner := ident.CallerFrom(ctx).UserID
	project, err := s.Projects.Current(ctx, owner, in.ProjectID)
	if err != nil {
		return record.Session{}, err
	}
	if in.ResumeFrom != "" {
		if err := s.checkFork(ctx, in); err != nil {
			return record.Session{}, err
		}
	}
	if err := s.checkIssue(ctx, project.ID, in.Issue); err != nil {
		return record.Session{}, err
	}
	at := now()
	session := record.Session{
		ID: ident.New(), Owner: owner, ProjectID: project.ID, Label: label, State: record.Idle, ResumeFrom: in.ResumeFrom,
		Budget:       in.Budget,
		CompiledHash: project.Snapshot.Hash, ProjectPath: project.Path, Workspace: project.Workspace, CreatedAt: at,
		UpdatedAt: at,
		Issue:     in.Issue,
	}
	payload := map[string]any{"label": label, "compiled_hash": session.CompiledHash}
	if in.Budget.Set() {
		payload["budget"] = budgetFields(in.Budget)
	}
	if in.ResumeFrom != "" {
		payload["resume_from"] = in.ResumeFrom
	}
	if in.Issue != 0 {
		payload["issue_number"] = in.Issue
	}
	if err := s.Store.Create(ctx, session, in.ResumeFrom, about(ctx, session, "session.created", payload)); err != nil {
		return record.Session{}, err
	}
	s.Projects.MarkOpened(ctx, owner, project.ID)
	s.Told(owner, notices.Session{Session: session})
	return session, nil
}

// checkIssue fails with validation_failed for a negative number, and with not_found if the project has no such
// issue; 0 stands for no issue.
func (s *Service) checkIssue(ctx context.Context, project string, number int64) error {
	switch {
	case number == 0:
		return nil
	case number < 0:
		return check.Field("issue_number", "issue_number must be the number of an issue, from 1.")
	}
	err := s.Issues.Check(ctx, project, number)
	if errors.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "The project has no issue #%d.", number).With("field", "issue_number")
	}
	return err
}

func (in NewSession) label() (string, error) {
	name, err := cleanLabel("name", in.Name)
	if err != nil {
		return "", err
	}
	label, err := cleanLabel("label", in.Label)
	switch {
	case err != nil:
		return "", err
	case name == "":
		return label, nil
	case label != "" && label != name:
		return "", check.Field("label", "name and label are the same value; give one of them.")
	}
	return name, nil
}

func (s *Service) checkFork(ctx context.Context, in NewSession) error {
	source, err := s.find(ctx, in.ResumeFrom)
	if errors.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "There is no session %q to continue.", in.ResumeFrom).With("field", "resume_from")
	}
	if err == nil && source.ProjectID != in.ProjectID {
		err = check.Field("resume_from", "resume_from is a session of the project %s; a conversation continues in its own "+
			"project.", source.ProjectID)
	}
	return err
}
