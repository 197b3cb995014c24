package projects

import (
	"kaged.dev/pkg/check"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/rpc"
)

// Config has the keys of [services.session-manager] for projects. Sizes are bytes.
type Config struct {
	// MaxPrompts is the maximum total size of the prompts of a project, ProjectFiles the maximum number of files that a
	// project is compiled from, PromptCache the maximum size of the prompts in memory.
	MaxPrompts   int `toml:"max_prompts"`
	ProjectFiles int `toml:"project_files"`
	PromptCache  int `toml:"prompt_cache"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		MaxPrompts:   8 << 20,
		ProjectFiles: 1024,
		PromptCache:  32 << 20,
	}
}

// maxPrompts is the part of a message to the harness that prompts may use.
const maxPrompts = rpc.MaxMessage / 2

// Validate fails with bad_request for an invalid value.
func (c Config) Validate() error {
	err := check.Positive(
		check.Setting{Key: "max_prompts", Value: int64(c.MaxPrompts)},
		check.Setting{Key: "project_files", Value: int64(c.ProjectFiles)},
		check.Setting{Key: "prompt_cache", Value: int64(c.PromptCache)},
	)
	if err == nil && c.MaxPrompts > maxPrompts {
		err = fault.New(fault.BadRequest, "max_prompts must be at most %d, which is what one message to the harness "+
			"can carry.", maxPrompts)
	}
	return err
}
