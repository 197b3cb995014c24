package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/ownpath"
	"kaged.dev/services/kaged/internal/workbench"
)

// toolFlags are the flags the tools commands share.
type toolFlags struct{ project, agent string }

func (f *toolFlags) add(cmd *cobra.Command, agent string) {
	cmd.Flags().StringVar(&f.project, "project", ".", projectUsage)
	cmd.Flags().StringVar(&f.agent, "agent", "", agent)
}

func (a App) tools(p *places) *cobra.Command {
	cmd := group("tools", "List the tools of agents, and call them yourself")
	cmd.Long = "The tools of agents, without a daemon: which there are, which an agent can use and why, and what they answer."
	cmd.AddCommand(a.toolsList(p), a.toolsCall(p))
	return cmd
}

// bench opens a bench on the project the flags name. dataDir is the zero Path where nothing will be changed.
func (a App) bench(p *places, f toolFlags, dataDir ownpath.Path) (*workbench.Bench, error) {
	root, err := filepath.Abs(f.project)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return nil, noFolder(f.project)
	}
	return workbench.Open(workbench.Options{
		ConfigPath: p.config, DataDir: dataDir, Root: root, Getenv: a.Getenv, Stderr: a.Stderr, Modules: a.Modules,
	})
}

// infrastructure makes an error end the command with the code for what is not the tool's.
func infrastructure(err error) error {
	if err == nil || codeOf(err) == exitCancelled {
		return err
	}
	return &exitError{exitInfrastructure, fmt.Errorf("the call was not completed: %s", sentence(err))}
}

// notStarted is the error of a command that came to make no call; what was asked for wrongly stays what it is.
func notStarted(err error) error {
	if codeOf(err) == exitUsage {
		return err
	}
	return infrastructure(err)
}
