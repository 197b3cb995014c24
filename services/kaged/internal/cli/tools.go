package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/kaged/internal/workbench"
)

// exitInfrastructure is for a call that was not made, or broke off, for a reason that is not the tool's.
const exitInfrastructure = 3

// toolFlags are the flags the tools commands share.
type toolFlags struct{ project, agent string }

func (f *toolFlags) add(cmd *cobra.Command, agent string) {
	cmd.Flags().StringVar(&f.project, "project", ".", "the project's folder")
	cmd.Flags().StringVar(&f.agent, "agent", "", agent)
}

func (a App) tools(p *places) *cobra.Command {
	cmd := group("tools", "List the tools of agents, and call them yourself")
	cmd.Long = "The tools of agents, without a daemon: which there are, which an agent can use and why, and what they answer."
	cmd.AddCommand(a.toolsList(p), a.toolsCall(p))
	return cmd
}

// bench opens a bench on the project the flags name. dataDir is empty where nothing will be changed.
func (a App) bench(p *places, f toolFlags, dataDir string) (*workbench.Bench, error) {
	root, err := filepath.Abs(f.project)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return nil, usage("there is no folder %s; name the project's with --project", f.project)
	}
	return workbench.Open(workbench.Options{
		ConfigPath: p.config, DataDir: dataDir, Root: root, Getenv: a.Getenv, Stderr: a.Stderr, Modules: a.Modules,
	})
}

// noSuchAgent turns the refusal of an agent's name into one that lists those there are.
func noSuchAgent(err error) error {
	if !errors.Is(err, fault.NotFound) {
		return err
	}
	f := fault.From(err)
	agents, _ := f.Details["agents"].([]any)
	if len(agents) == 0 {
		return &exitError{exitUsage, err}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s It has:", f.Msg)
	for _, name := range agents {
		fmt.Fprintf(&b, "\n  %v", name)
	}
	return &exitError{exitUsage, errors.New(b.String())}
}

// infrastructure makes an error end the command with the code for what is not the tool's.
func infrastructure(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitInfrastructure, fmt.Errorf("the call was not completed: %s", sentence(err))}
}
