package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/user"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// agentView is an agent of a project and its cage, in the form of GET /api/v1/projects/:id/capabilities.
type agentView struct {
	AgentPath string `json:"agent_path"`
	Caged     bool   `json:"caged"`
	Summary   string `json:"summary"`
}

// sayAgents prints the permissions of each agent of the session's project to stderr, one agent per line.
func sayAgents(ctx context.Context, a kit.App, c *client.Client, f runFlags, session string) error {
	var of struct {
		ProjectID string `json:"project_id"`
	}
	if err := c.Do(ctx, http.MethodGet, "/api/v1/sessions/"+url.PathEscape(session), nil, &of); err != nil {
		return err
	}
	var may struct{ Agents []agentView }
	if err := c.Do(ctx, http.MethodGet, "/api/v1/projects/"+url.PathEscape(of.ProjectID)+"/capabilities", nil,
		&may); err != nil {
		return err
	}
	for _, agent := range may.Agents {
		agent.Caged = agent.Caged && c.Sandboxed()
		fmt.Fprintf(a.Stderr, "kaged: %s: %s\n", kit.Brief(agent.AgentPath, 200), agent.may(f.URL != ""))
	}
	return nil
}

// may returns the agent's permissions in words. remote is true if the daemon runs as another user.
func (v agentView) may(remote bool) string {
	if v.Caged {
		return "caged: " + kit.Brief(v.Summary, 400)
	}
	name := "the daemon's user"
	if me, err := user.Current(); err == nil && !remote {
		name = me.Username
	}
	return "no cage: full access as " + name
}

// writeSession writes the first line of --json, with the session and the run of the frames.
func writeSession(w io.Writer, session, run string) error {
	var first struct {
		Type    string `json:"type"`
		Payload struct {
			SessionID string `json:"session_id"`
			RunID     string `json:"run_id"`
		} `json:"payload"`
	}
	first.Type, first.Payload.SessionID, first.Payload.RunID = "session", session, run
	line, err := json.Marshal(first)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", line)
	return err
}

// busy adds to the error for a session in use the command that helps.
func busy(err error, session string) error {
	f := fault.From(err)
	switch {
	case !errors.Is(err, fault.Conflict):
		return err
	case f.Details["reason"] == fault.SessionAttached.String():
		return fault.New(fault.Conflict, "Another client is attached to this session; close it, or use --takeover.")
	case f.Details["current_message"] != nil:
		return fault.New(fault.Conflict, "A run is in progress in this session. Wait, or stop it: kaged cancel %s", session)
	}
	return err
}
