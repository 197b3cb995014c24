// Package ps is `kaged ps`.
package ps

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/termtext"
	"kaged.dev/services/kaged/internal/cli/kit"
	"kaged.dev/services/kaged/internal/cli/lsp"
)

// running is the API's list of active runs and processes.
type running struct {
	Runs      []runningRun     `json:"runs"`
	Processes []runningProcess `json:"processes"`
	Cages     []runningCage    `json:"cages"`
	// LanguageServers are the language servers of projects. The list of one session omits them.
	LanguageServers []lsp.Server `json:"language_servers"`
}

type runningRun struct {
	ID         string `json:"id"`
	SessionID  string `json:"session_id"`
	ProjectID  string `json:"project_id"`
	State      string `json:"state"`
	CageStatus string `json:"cage_status"`
	CreatedAt  int64  `json:"created_at"`
	StartedAt  *int64 `json:"started_at"`
	Prompt     string `json:"prompt"`
	// LiveSubagents are the working agents below the root.
	LiveSubagents []runningAgent `json:"live_subagents"`
}

type runningAgent struct {
	InvocationID       string  `json:"invocation_id"`
	Name               string  `json:"name"`
	AgentPath          string  `json:"agent_path"`
	ParentInvocationID *string `json:"parent_invocation_id"`
	State              string  `json:"state"`
	CageStatus         string  `json:"cage_status"`
	StartedAt          int64   `json:"started_at"`
}

type runningProcess struct {
	ID          string  `json:"id"`
	SessionID   string  `json:"session_id"`
	ProjectID   string  `json:"project_id"`
	RunID       string  `json:"run_id"`
	AgentPath   string  `json:"agent_path"`
	CageID      *string `json:"cage_id"`
	PID         int64   `json:"pid"`
	Command     string  `json:"command"`
	StartedAt   int64   `json:"started_at"`
	MemoryBytes int64   `json:"memory_bytes"`
	CPUMS       int64   `json:"cpu_ms"`
	Background  bool    `json:"background"`
	Terminal    bool    `json:"terminal"`
}

type runningCage struct {
	ID          string   `json:"id"`
	SessionID   string   `json:"session_id"`
	ProjectID   string   `json:"project_id"`
	RunID       string   `json:"run_id"`
	AgentPath   string   `json:"agent_path"`
	Tier        string   `json:"tier"`
	BestEffort  []string `json:"best_effort"`
	StartedAt   int64    `json:"started_at"`
	MemoryBytes int64    `json:"memory_bytes"`
	CPUMS       int64    `json:"cpu_ms"`
	Processes   int      `json:"processes"`
}

func Command(a kit.App, p *kit.Places) *cobra.Command {
	var session, address string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the runs, commands and cages of your sessions, and language servers",
		Long: "Lists the runs of your sessions that are pending or at work, with their agents, the commands " +
			"that\n" +
			"agents have started and their cages: owner, start, memory and CPU time. The lines below a cage " +
			"are\n" +
			"its commands. All of these end with their session. `kaged cancel SESSION` stops a run. Language\n" +
			"servers belong to projects and are listed last; see `kaged lsp`. `kaged kill PID` sends a signal\n" +
			"to a command.",
		Example: "  kaged ps\n  kaged ps --session 01K0000000000000000000000A --json",
		Args:    kit.Nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := kit.UrlFlag(cmd, address); err != nil {
				return err
			}
			now, err := ask(cmd.Context(), a, p, session, address)
			if err != nil {
				return err
			}
			if asJSON {
				return kit.WriteJSON(a.Stdout, now)
			}
			return writeRunning(a.Stdout, now, time.Now())
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "only runs, commands and cages of this session")
	cmd.Flags().
		StringVar(&address, "url", "", "the URL of another daemon, which needs no sign-in (default: the "+
			"daemon of the data directory)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the API's answer as one JSON object")
	return cmd
}

// ask requests the active runs and processes from the daemon. Without a daemon the list is empty.
func ask(ctx context.Context, a kit.App, p *kit.Places, session, address string) (now running, err error) {
	path := "/api/v1/processes"
	if session != "" {
		path = "/api/v1/sessions/" + url.PathEscape(session) + "/processes"
	}
	now = running{
		Runs:            []runningRun{},
		Processes:       []runningProcess{},
		Cages:           []runningCage{},
		LanguageServers: []lsp.Server{},
	}
	all := func(c *client.Client) error {
		if err := c.Do(ctx, http.MethodGet, path, nil, &now); err != nil || session != "" {
			return err
		}
		list, err := lsp.List(ctx, c, "")
		for _, s := range list {
			if s.PID != 0 {
				now.LanguageServers = append(now.LanguageServers, s)
			}
		}
		return err
	}
	if address != "" {
		c := client.New(address).WithToken(a.Getenv(kit.TokenVariable))
		defer c.Close()
		return now, all(c)
	}
	there, err := a.Gateway(ctx, p, func(conn grpc.ClientConnInterface) error {
		c, err := client.SignInWith(ctx, conn)
		if err != nil {
			return err
		}
		defer c.Close()
		return all(c)
	})
	if err == nil && !there {
		fmt.Fprintf(a.Stderr, "kaged: no daemon runs on %s\n", p.DataDir)
	}
	return now, err
}

// writeRunning writes a table: the runs, each cage with its processes, then the processes without a cage.
func writeRunning(w io.Writer, now running, at time.Time) error {
	if len(now.Runs)+len(now.Processes)+len(now.Cages)+len(now.LanguageServers) == 0 {
		_, err := fmt.Fprintln(w, "No runs, commands, cages or language servers are active.")
		return err
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "SESSION\tAGENT\tCAGE\tPID\tSINCE\tMEM\tCPU\tCOMMAND")
	line := func(session, agent, cage, pid string, since, memory, cpu int64, what string) {
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", session, termtext.Line(agent), cage, pid,
			kit.Ago(at, since), mebibytes(memory), kit.Seconds(cpu), kit.Brief(what, 100))
	}
	for _, r := range now.Runs {
		fmt.Fprintf(
			tab,
			"%s\t%s\t%s\t%s\t%s\t%s\t%s\t(run, %s) %s\n",
			r.SessionID,
			"primary",
			r.CageStatus,
			"-",
			kit.Ago(at, r.CreatedAt),
			"-",
			"-",
			r.State,
			kit.Brief(r.Prompt, 80),
		)
		for _, c := range r.LiveSubagents {
			fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t(agent, %s) %s\n", r.SessionID, termtext.Line(c.AgentPath),
				c.CageStatus, "-",
				kit.Ago(at, c.StartedAt), "-", "-", c.State, c.InvocationID)
		}
	}
	shown := map[string]bool{}
	for _, c := range now.Cages {
		line(c.SessionID, c.AgentPath, tail(c.ID), "-", c.StartedAt, c.MemoryBytes, c.CPUMS,
			fmt.Sprintf("(cage, %s, %s)", c.Tier, kit.Count(c.Processes, "process", "processes")))
		for _, p := range now.Processes {
			if p.CageID != nil && *p.CageID == c.ID {
				shown[p.ID] = true
				line(p.SessionID, p.AgentPath, tail(c.ID), fmt.Sprint(p.PID), p.StartedAt, p.MemoryBytes, p.CPUMS, p.Command)
			}
		}
	}
	for _, p := range now.Processes {
		if shown[p.ID] {
			continue
		}
		cage := "-"
		if p.CageID != nil { // its cage ended between the two requests
			cage = tail(*p.CageID)
		}
		line(p.SessionID, p.AgentPath, cage, fmt.Sprint(p.PID), p.StartedAt, p.MemoryBytes, p.CPUMS, p.Command)
	}
	for _, s := range now.LanguageServers {
		fmt.Fprintf(tab, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t(language server, %s) %s\n", termtext.Line(s.ProjectID),
			"code.lsp."+termtext.Line(s.Lang), lsp.Caged(s), s.PID, kit.Ago(at, s.StartedAt), "-", "-", s.State,
			kit.Brief(strings.Join(s.Command, " "), 80))
	}
	return tab.Flush()
}

// tailLength is the number of characters at the end of an id that distinguish it from other ids of the same hour.
const tailLength = 8

// tail returns the end of an id, which differs more than its beginning.
func tail(id string) string { return id[max(0, len(id)-tailLength):] }

func mebibytes(n int64) string { return fmt.Sprintf("%.1fMiB", float64(n)/(1<<20)) }
