package toolrunner

import (
	"os"
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core"
	"kaged.dev/services/tool-runner/internal/core/calls"
	"kaged.dev/services/tool-runner/internal/core/dispatch"
	"kaged.dev/services/tool-runner/internal/core/paths"
	"kaged.dev/services/tool-runner/internal/core/project"
	"kaged.dev/services/tool-runner/internal/core/tools"
)

// Config is [services.tool-runner] in local.toml. Sizes are bytes.
type Config struct {
	// AllowedPaths are folders outside the project that tools may reach, absolute or starting with ~/.
	AllowedPaths []string `toml:"allowed_paths"`
	// DeniedPaths are paths and glob patterns no tool may reach; they win over everything.
	DeniedPaths []string `toml:"denied_paths"`

	// LockWait is how long a call waits for another that changes the same file.
	LockWait config.Duration `toml:"lock_wait"`
	// ToolTimeout bounds tools without a limit of their own.
	ToolTimeout config.Duration `toml:"tool_timeout"`
	// AuditValueBytes is the longest parameter that is recorded as it is; longer ones are recorded by size and hash.
	AuditValueBytes int `toml:"audit_value_bytes"`

	// KeptResults, KeptBytes and KeptFor bound the results that are remembered for repeated calls: per session, in all, and
	// for how long.
	KeptResults int             `toml:"kept_results"`
	KeptBytes   int             `toml:"kept_bytes"`
	KeptFor     config.Duration `toml:"kept_for"`
	// OutputEvery is how long a running tool's output is gathered before people see it, OutputBytes how much waits for a slow
	// reader.
	OutputEvery config.Duration `toml:"output_every"`
	OutputBytes int             `toml:"output_bytes"`
	// ReadRecordSessions and ReadRecordFiles bound what is remembered about files that were read.
	ReadRecordSessions int `toml:"read_record_sessions"`
	ReadRecordFiles    int `toml:"read_record_files"`

	// ReadBytes bounds one answer of file.read, ReadPageBytes a page of its alias read, ReadLineChars one line.
	ReadBytes     int `toml:"read_bytes"`
	ReadPageBytes int `toml:"read_page_bytes"`
	ReadLineChars int `toml:"read_line_chars"`
	// ReadFileBytes is the largest file that is read at all: all of it is hashed and counted.
	ReadFileBytes int64 `toml:"read_file_bytes"`

	// ProjectFiles, ProjectFileBytes and ProjectTotalBytes bound ReadProject: how many files at once, the largest where the
	// caller does not say, and all together.
	ProjectFiles      int   `toml:"project_files"`
	ProjectFileBytes  int64 `toml:"project_file_bytes"`
	ProjectTotalBytes int64 `toml:"project_total_bytes"`
}

// DefaultConfig returns the specification's values.
func DefaultConfig() Config {
	return Config{
		LockWait: config.Duration(5 * time.Second), ToolTimeout: config.Duration(120 * time.Second), AuditValueBytes: 1 << 10,
		KeptResults: 256, KeptBytes: 64 << 20, KeptFor: config.Duration(10 * time.Minute),
		OutputEvery: config.Duration(25 * time.Millisecond), OutputBytes: 256 << 10,
		ReadRecordSessions: 4096, ReadRecordFiles: 8192,
		ReadBytes: 512 << 10, ReadPageBytes: 50 << 10, ReadLineChars: 2000, ReadFileBytes: 1 << 30,
		ProjectFiles: 256, ProjectFileBytes: 1 << 20, ProjectTotalBytes: 12 << 20,
	}
}

// Validate refuses limits that would make every call fail.
func (c Config) Validate() error {
	for name, value := range map[string]int64{
		"lock_wait": int64(c.LockWait), "tool_timeout": int64(c.ToolTimeout), "audit_value_bytes": int64(c.AuditValueBytes),
		"kept_results": int64(c.KeptResults), "kept_bytes": int64(c.KeptBytes), "kept_for": int64(c.KeptFor),
		"output_every": int64(c.OutputEvery), "output_bytes": int64(c.OutputBytes),
		"read_record_sessions": int64(c.ReadRecordSessions), "read_record_files": int64(c.ReadRecordFiles),
		"read_bytes": int64(c.ReadBytes), "read_page_bytes": int64(c.ReadPageBytes), "read_line_chars": int64(c.ReadLineChars),
		"read_file_bytes": c.ReadFileBytes,
		"project_files":   int64(c.ProjectFiles), "project_file_bytes": c.ProjectFileBytes, "project_total_bytes": c.ProjectTotalBytes,
	} {
		if value <= 0 {
			return fault.New(fault.BadRequest, "services.tool-runner.%s must be greater than zero.", name)
		}
	}
	return nil
}

// options returns the configuration as core reads it.
func (c Config) options() core.Options {
	home, _ := os.UserHomeDir()
	return core.Options{
		Rules:    paths.Rules{Allowed: c.AllowedPaths, Denied: c.DeniedPaths, Home: home},
		Dispatch: dispatch.Options{LockWait: c.LockWait.D(), Timeout: c.ToolTimeout.D(), AuditValue: c.AuditValueBytes},
		Calls: calls.Options{
			Kept: c.KeptResults, KeptBytes: c.KeptBytes, KeptFor: c.KeptFor.D(),
			OutputEvery: c.OutputEvery.D(), OutputBytes: c.OutputBytes,
		},
		Tools: tools.Limits{
			ReadBytes: c.ReadBytes, PageBytes: c.ReadPageBytes, LineRunes: c.ReadLineChars, ReadFile: c.ReadFileBytes,
		},
		Project: project.Options{
			Files: c.ProjectFiles, FileBytes: c.ProjectFileBytes, TotalBytes: c.ProjectTotalBytes,
		},
		Sessions: c.ReadRecordSessions, Files: c.ReadRecordFiles,
	}
}
