package tools

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/toolcall"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/schema"
	"kaged.dev/services/tool-runner/internal/core/tool"
	"kaged.dev/services/tool-runner/internal/core/tracker"
)

//go:embed kaged_issue.md
var kagedIssueText string

const kagedIssueName = "kaged.issue"

type issueParams struct {
	Action     string     `json:"action" enum:"list,get,create,comment,transition" doc:"What to do."`
	Number     schema.Int `json:"number,omitempty" min:"1" doc:"Number of the issue."`
	Status     string     `json:"status,omitempty" enum:"open,triaged,assigned,in_progress,resolved,rejected,reopened" doc:"For list: only this status."`
	Search     string     `json:"search,omitempty" doc:"For list: words to look for."`
	Limit      schema.Int `json:"limit,omitempty" default:"25" min:"1" max:"100" doc:"For list: how many at most."`
	Offset     schema.Int `json:"offset,omitempty" default:"0" min:"0" max:"100000" doc:"For list: how many to leave out."`
	Title      string     `json:"title,omitempty" doc:"For create: at most 200 characters."`
	Body       string     `json:"body,omitempty" doc:"For create and comment: Markdown, at most 16 KB."`
	Visibility string     `json:"visibility,omitempty" enum:"all,operator_only" default:"all" doc:"For comment."`
	To         string     `json:"to,omitempty" enum:"triaged,assigned,in_progress,resolved,rejected,reopened" doc:"For transition."`
	Comment    string     `json:"comment,omitempty" doc:"For transition: why; required for resolved and rejected."`
}

type issueListParams struct {
	Status string     `json:"status,omitempty" enum:"open,triaged,assigned,in_progress,resolved,rejected,reopened" doc:"Only this status."`
	Search string     `json:"search,omitempty" doc:"Words to look for."`
	Limit  schema.Int `json:"limit,omitempty" default:"25" min:"1" max:"100" doc:"How many at most."`
	Offset schema.Int `json:"offset,omitempty" default:"0" min:"0" max:"100000" doc:"How many to leave out."`
}

type issueGetParams struct {
	Number schema.Int `json:"number" min:"1" doc:"Number of the issue."`
}

type issueCreateParams struct {
	Title string `json:"title" doc:"At most 200 characters."`
	Body  string `json:"body" doc:"Markdown, at most 16 KB."`
}

type issueCommentParams struct {
	Number     schema.Int `json:"number" min:"1" doc:"Number of the issue."`
	Body       string     `json:"body" doc:"Markdown, at most 16 KB."`
	Visibility string     `json:"visibility,omitempty" enum:"all,operator_only" default:"all" doc:"Who reads it."`
}

type issueTransitionParams struct {
	Number  schema.Int `json:"number" min:"1" doc:"Number of the issue."`
	To      string     `json:"to" enum:"triaged,assigned,in_progress,resolved,rejected,reopened" doc:"New status."`
	Comment string     `json:"comment,omitempty" doc:"Why; required for resolved and rejected."`
}

type issueResult struct {
	Issues *[]issueRow `json:"issues,omitempty"`
	Total  *int64      `json:"total,omitempty" doc:"How many match in all, counted up to 1000."`
	Limit  *int64      `json:"limit,omitempty"`
	Offset *int64      `json:"offset,omitempty"`

	ID               string   `json:"id,omitempty"`
	Number           int64    `json:"number,omitempty"`
	Title            string   `json:"title,omitempty"`
	Body             *string  `json:"body,omitempty"`
	OriginalBody     *string  `json:"original_body,omitempty"`
	Status           string   `json:"status,omitempty"`
	Assignment       *string  `json:"assignment,omitempty"`
	CreatedBy        string   `json:"created_by,omitempty"`
	CreatedAt        int64    `json:"created_at,omitempty"`
	From             string   `json:"from,omitempty"`
	To               string   `json:"to,omitempty"`
	UpdatedAt        int64    `json:"updated_at,omitempty"`
	ResolvedAt       *int64   `json:"resolved_at,omitempty"`
	ResolvedBy       *string  `json:"resolved_by,omitempty"`
	LegalTransitions []string `json:"legal_transitions,omitempty"`

	Updates        *[]issueUpdate `json:"updates,omitempty"`
	UpdatesOmitted int            `json:"updates_omitted,omitempty" doc:"How many of the oldest are left out."`

	UpdateID    string `json:"update_id,omitempty"`
	IssueNumber int64  `json:"issue_number,omitempty"`
}

type issueRow struct {
	ID         string  `json:"id"`
	Number     int64   `json:"number"`
	Title      string  `json:"title"`
	Status     string  `json:"status"`
	Assignment *string `json:"assignment,omitempty"`
	CreatedBy  string  `json:"created_by"`
	CreatedAt  int64   `json:"created_at"`
	UpdatedAt  int64   `json:"updated_at"`
}

type issueUpdate struct {
	ID         string         `json:"id"`
	Author     string         `json:"author"`
	Kind       string         `json:"kind" enum:"comment,status_change,title_edit,body_edit,assignment_change"`
	Body       string         `json:"body"`
	Metadata   map[string]any `json:"metadata"`
	Visibility string         `json:"visibility" enum:"all,operator_only"`
	CreatedAt  int64          `json:"created_at"`
}

func kagedIssue(d Deps) *tool.Entry {
	e := tool.Define(tool.Spec[issueParams, issueResult]{
		Name: kagedIssueName, Description: kagedIssueText, Category: tool.Write, RootOnly: true, DefaultRoot: true,
		ReadWhen: toolcall.When{{{Parameter: "action", Values: []string{"list", "get"}}}},
		Action:   func(p *issueParams) string { return p.Action },
		Effect:   func(p *issueParams) tool.Effect { return looksOrWrites(p.Action == "list" || p.Action == "get") },
		Aliases:  issueAliases(),
		Limits: []tool.Limit{tool.InBytes("issue_output_bytes", d.Limits.IssueBytes,
			"of the updates of an issue in the answer to get")},
		Run: d.useIssues,
	})
	e.Unavailable = d.trackerAway
	return e
}

// looksOrWrites returns the effect of a call that is read-only, or changes data without approval.
func looksOrWrites(looks bool) tool.Effect {
	if looks {
		return tool.Effect{Category: tool.Read}
	}
	return tool.Effect{Category: tool.Write}
}

func issueAliases() []tool.Alias {
	const of = kagedIssueName
	return []tool.Alias{
		tool.ActionOf(of, "list",
			"List the project's issues, the highest numbers first; without a status those that have not ended.",
			func(p issueListParams) issueParams {
				return issueParams{Action: "list", Status: p.Status, Search: p.Search, Limit: p.Limit, Offset: p.Offset}
			}),
		tool.ActionOf(of, "get", "Show one issue with what happened to it, the oldest first.",
			func(p issueGetParams) issueParams { return issueParams{Action: "get", Number: p.Number} }),
		tool.ActionOf(of, "create", "File an issue.",
			func(p issueCreateParams) issueParams {
				return issueParams{Action: "create", Title: p.Title, Body: p.Body}
			}),
		tool.ActionOf(of, "comment", "Comment on an issue.",
			func(p issueCommentParams) issueParams {
				return issueParams{Action: "comment", Number: p.Number, Body: p.Body, Visibility: p.Visibility}
			}),
		tool.ActionOf(of, "transition", "Move an issue to another status.",
			func(p issueTransitionParams) issueParams {
				return issueParams{Action: "transition", Number: p.Number, To: p.To, Comment: p.Comment}
			}),
	}
}

// trackerAway returns the reason why every call fails, nil if calls can succeed.
func (d Deps) trackerAway() *fault.Error {
	if d.Tracker != nil {
		return nil
	}
	return fault.New(fault.Unavailable,
		"Issues and todos are kept by the daemon, and this process has none; run `kaged up` and use them from a session.").
		With("subsystem", "issue")
}

// missing returns the error of a call that lacks a required parameter.
func (p *issueParams) missing() error {
	switch {
	case p.Action != "list" && p.Action != "create" && p.Number == 0:
		return lacking("number", p.Action)
	case p.Action == "create" && strings.TrimSpace(p.Title) == "":
		return lacking("title", p.Action)
	case (p.Action == "create" || p.Action == "comment") && strings.TrimSpace(p.Body) == "":
		return lacking("body", p.Action)
	case p.Action == "transition" && p.To == "":
		return lacking("to", p.Action)
	}
	return nil
}

func lacking(field, action string) error {
	return fault.New(fault.InvalidParams, "%s is required for the action %s.", field, action).With("field", field)
}

// useIssues executes one action.
func (d Deps) useIssues(ctx context.Context, call *tool.Call, p *issueParams) (issueResult, error) {
	if away := d.trackerAway(); away != nil {
		return issueResult{}, away
	}
	if err := p.missing(); err != nil {
		return issueResult{}, err
	}
	a, err := d.Tracker.Use(ctx, trackerAt(call), tracker.Query{
		Action: p.Action, Number: int64(p.Number), Status: p.Status, Search: p.Search, Limit: int32(p.Limit),
		Offset: int32(p.Offset), Title: p.Title, Body: p.Body, Visibility: cmp.Or(p.Visibility, "all"), To: p.To,
		Comment: p.Comment, ClientID: callDigest(call),
	})
	if err != nil {
		return issueResult{}, trackerFailure(ctx, err)
	}
	recordIssue(call, p, a)
	switch i := a.Issue; p.Action {
	case "list":
		return issueList(p, a), nil
	case "get":
		return issueDetail(a, d.Limits.IssueBytes)
	case "create":
		return issueResult{ID: i.ID, Number: i.Number, Status: i.Status, CreatedAt: i.CreatedAt}, nil
	case "comment":
		return issueResult{UpdateID: a.Update.ID, IssueNumber: int64(p.Number), CreatedAt: a.Update.CreatedAt}, nil
	default:
		return issueResult{Number: i.Number, From: a.From, To: i.Status, UpdatedAt: i.UpdatedAt}, nil
	}
}

func issueList(p *issueParams, a tracker.Answer) issueResult {
	limit, offset := int64(p.Limit), int64(p.Offset)
	rows := issueRows(a.Issues)
	return issueResult{Issues: &rows, Total: &a.Total, Limit: &limit, Offset: &offset}
}

// issueDetail returns an issue with its latest updates that fit into limit.
func issueDetail(a tracker.Answer, limit int) (issueResult, error) {
	i := a.Issue
	first := len(a.Updates)
	for size := 0; first > 0; first-- {
		if size += len(a.Updates[first-1].Body) + len(a.Updates[first-1].Metadata); size > limit {
			break
		}
	}
	updates := make([]issueUpdate, 0, len(a.Updates)-first)
	for _, u := range a.Updates[first:] {
		shown := issueUpdate{
			ID: u.ID, Author: u.Author, Kind: u.Kind, Body: u.Body, Visibility: u.Visibility,
			CreatedAt: u.CreatedAt,
		}
		if err := json.Unmarshal(u.Metadata, &shown.Metadata); err != nil {
			return issueResult{}, tool.Infrastructure(fault.Wrap(err, fault.Internal,
				"The update %s of an issue cannot be read.", u.ID))
		}
		updates = append(updates, shown)
	}
	return issueResult{
		ID: i.ID, Number: i.Number, Title: i.Title, Body: &i.Body, OriginalBody: i.OriginalBody, Status: i.Status,
		Assignment: i.Assignment, CreatedBy: i.CreatedBy, CreatedAt: i.CreatedAt, UpdatedAt: i.UpdatedAt,
		ResolvedAt: i.ResolvedAt, ResolvedBy: i.ResolvedBy, LegalTransitions: i.Legal, Updates: &updates,
		UpdatesOmitted: first,
	}, nil
}

// recordIssue writes the audit record of a call's change.
func recordIssue(call *tool.Call, p *issueParams, a tracker.Answer) {
	switch i := a.Issue; p.Action {
	case "create":
		call.Record(audit.IssueCreated, map[string]any{
			"issue_id": i.ID, "project_id": call.From.ProjectID, "number": i.Number, "title": i.Title,
		})
	case "comment":
		call.Record(audit.IssueCommented, map[string]any{
			"issue_id": a.IssueID, "number": int64(p.Number), "update_id": a.Update.ID, "visibility": a.Update.Visibility,
		})
	case "transition":
		call.Record(audit.IssueTransitioned, map[string]any{
			"issue_id": i.ID, "number": i.Number, "from_status": a.From, "to_status": i.Status,
		})
	}
}

//convert:one issueRows []tracker.Issue []issueRow >list
//convert:one issueRowOf tracker.Issue issueRow
//convert:one callerAt contract.Caller tracker.At OperatorID=Operator ProjectID=Project RequestID=Request
//convert:import contract "kaged.dev/pkg/contract"

func trackerAt(call *tool.Call) tracker.At { return callerAt(call.From) }

// callDigest identifies a call: a repetition of the call has the same digest.
func callDigest(call *tool.Call) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		call.From.SessionID, call.From.RunID, call.From.InvocationID,
		call.ID,
	}, "\x00")))
	return "call-" + hex.EncodeToString(sum[:16])
}

// trackerFailure returns the error of the call for a failed request. An unavailable issue service becomes a result,
// because the other tools work without it.
func trackerFailure(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return err
	case errors.Is(err, fault.Internal), errors.Is(err, fault.BadRequest):
		return tool.Infrastructure(err)
	case errors.Is(err, fault.Unavailable):
		return fault.Wrap(err, fault.Unavailable, "The issues cannot be reached; the other tools work without them.").
			With("subsystem", "issue")
	}
	return err
}
