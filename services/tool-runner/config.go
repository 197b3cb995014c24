package toolrunner

import (
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/redact"
	"kaged.dev/pkg/shellguard"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core"
	"kaged.dev/services/tool-runner/internal/core/calls"
	"kaged.dev/services/tool-runner/internal/core/changes"
	"kaged.dev/services/tool-runner/internal/core/clitools"
	"kaged.dev/services/tool-runner/internal/core/dispatch"
	"kaged.dev/services/tool-runner/internal/core/memories"
	"kaged.dev/services/tool-runner/internal/core/processes"
	"kaged.dev/services/tool-runner/internal/core/project"
	"kaged.dev/services/tool-runner/internal/core/tools"
)

// Config is [services.tool-runner] in local.toml. Sizes are bytes.
type Config struct {
	// AllowedPaths are folders outside the project that tools may reach, absolute or starting with ~/.
	AllowedPaths []string `toml:"allowed_paths"`
	// DeniedPaths are paths and glob patterns that no tool may reach, with all paths below them; they override all other
	// rules. A path that begins with neither / nor ~/ is relative to the project's root.
	DeniedPaths []string `toml:"denied_paths"`

	// BlockedCommands are commands that never run; DestructiveCommands are those that run only after an operator's
	// approval. An entry is a name, followed by words that must be among the arguments, all as patterns. A project cannot
	// change them.
	BlockedCommands     []string `toml:"blocked_commands"`
	DestructiveCommands []string `toml:"destructive_commands"`
	// SystemPaths are paths that are changed only after an operator's approval: absolute, starting with ~/, or relative,
	// which means in every folder of a project. For a link, its target is included.
	SystemPaths []string `toml:"system_paths"`

	// LockWait is the maximum wait for another call that changes the same file.
	LockWait config.Duration `toml:"lock_wait"`
	// ToolTimeout limits tools without their own time limit.
	ToolTimeout config.Duration `toml:"tool_timeout"`
	// AuditValueBytes is the maximum size of a parameter that is recorded in full; larger ones are recorded by size and
	// hash.
	AuditValueBytes int `toml:"audit_value_bytes"`

	// KeptResults, KeptBytes and KeptFor limit the results that are remembered for repeated calls: their number per
	// session, their total size, and the time.
	KeptResults int             `toml:"kept_results"`
	KeptBytes   int             `toml:"kept_bytes"`
	KeptFor     config.Duration `toml:"kept_for"`
	// OutputEvery is the interval at which a running tool's output is shown to people, OutputBytes the maximum size that
	// waits for a slow reader.
	OutputEvery config.Duration `toml:"output_every"`
	OutputBytes int             `toml:"output_bytes"`
	// ReadRecordSessions and ReadRecordFiles limit the records of read files.
	ReadRecordSessions int `toml:"read_record_sessions"`
	ReadRecordFiles    int `toml:"read_record_files"`

	// ReadBytes limits one answer of file.read, ReadPageBytes a page of its alias read, ReadLineChars one line.
	ReadBytes     int `toml:"read_bytes"`
	ReadPageBytes int `toml:"read_page_bytes"`
	ReadLineChars int `toml:"read_line_chars"`
	// ReadFileBytes is the maximum size of a file that is read, because the whole file is hashed and counted.
	ReadFileBytes int64 `toml:"read_file_bytes"`

	// AfterEdit is "errors" if results of file.* and edit.* contain the new errors of the changed files when a language
	// server runs, or "off". AfterEditWait is the maximum wait for them, up to a second.
	AfterEdit     string          `toml:"after_edit"`
	AfterEditWait config.Duration `toml:"after_edit_wait"`

	// EditFileBytes is the maximum size of a file that is edited or shown in a diff, DiffBytes the maximum size of a diff
	// in an edit's answer.
	EditFileBytes int `toml:"edit_file_bytes"`
	DiffBytes     int `toml:"diff_bytes"`
	// PatchFiles is the maximum number of files in one patch, PatchTotalBytes the maximum size read for them together. The
	// latter also limits the changed files that edit.ast keeps in memory before it reads them again.
	PatchFiles      int   `toml:"patch_files"`
	PatchTotalBytes int64 `toml:"patch_total_bytes"`
	// ListEntries limits the entries in an answer of file.list.
	ListEntries int `toml:"list_entries"`

	// SearchWorkers is the number of goroutines of one search, SearchTimeout its time limit; a timed-out search answers
	// with its findings so far.
	SearchWorkers int             `toml:"search_workers"`
	SearchTimeout config.Duration `toml:"search_timeout"`
	// SearchOutputBytes limits the answer of search.grep, GlobFiles that of search.glob.
	SearchOutputBytes int `toml:"search_output_bytes"`
	GlobFiles         int `toml:"glob_files"`
	// IssueOutputBytes limits the updates of an issue in an answer of kaged.issue; the oldest are left out.
	IssueOutputBytes int `toml:"issue_output_bytes"`
	// HideOutsideCage omits matches of search.grep and search.ast outside the caller's cage, instead of naming path and
	// line; search.grep names whole words only.
	HideOutsideCage bool `toml:"hide_outside_cage"`

	// MemoryFiles, MemoryFileBytes and MemoryTotalBytes limit the notes of a project that memory.search reads: their
	// number, the size of one, and their total size. MemoryKeptBytes limits the notes in memory for all projects and
	// cages; with the index they take about twice as much. MemorySnippetChars is the shown length of a passage.
	MemoryFiles        int   `toml:"memory_files"`
	MemoryFileBytes    int64 `toml:"memory_file_bytes"`
	MemoryTotalBytes   int64 `toml:"memory_total_bytes"`
	MemoryKeptBytes    int64 `toml:"memory_kept_bytes"`
	MemorySnippetChars int   `toml:"memory_snippet_chars"`

	// SyntaxFileBytes is the maximum size of a file that search.ast and edit.ast parse, SyntaxNodes the maximum number
	// of nodes of its tree (16 bytes each, and as much again during the parse; a parse itself takes at most about
	// 64 MiB, 128 bytes for each of the first 2 MiB of a file and 80 for each further byte; a parser keeps up to 32 MB
	// between parses), SyntaxParsers the maximum number of files parsed at once by all calls together.
	SyntaxFileBytes int64 `toml:"syntax_file_bytes"`
	SyntaxNodes     int   `toml:"syntax_nodes"`
	SyntaxParsers   int   `toml:"syntax_parsers"`

	// ShellTimeout, ShellMinTimeout and ShellMaxTimeout are the default, minimum and maximum time limit of a command.
	// ShellGrace is the time after it in which the sandbox must report the command's end.
	ShellTimeout    config.Duration `toml:"shell_timeout"`
	ShellMinTimeout config.Duration `toml:"shell_min_timeout"`
	ShellMaxTimeout config.Duration `toml:"shell_max_timeout"`
	ShellGrace      config.Duration `toml:"shell_grace"`
	// ShellCommandBytes and ShellEnvEntries limit a call, ShellOutputBytes the retained output, and BashOutputBytes the
	// same for the alias bash. ShellAuditChars is the recorded length of a command.
	ShellCommandBytes int `toml:"shell_command_bytes"`
	ShellEnvEntries   int `toml:"shell_env_entries"`
	ShellOutputBytes  int `toml:"shell_output_bytes"`
	BashOutputBytes   int `toml:"bash_output_bytes"`
	ShellAuditChars   int `toml:"shell_audit_chars"`

	// ExecTimeout, ExecMinTimeout and ExecMaxTimeout are the same for shell.exec, also in the background. ExecOutputChars
	// is the maximum length of the returned output in characters.
	ExecTimeout     config.Duration `toml:"exec_timeout"`
	ExecMinTimeout  config.Duration `toml:"exec_min_timeout"`
	ExecMaxTimeout  config.Duration `toml:"exec_max_timeout"`
	ExecOutputChars int             `toml:"exec_output_chars"`
	// ProcessOutputChars is the maximum length of a background process's output in one poll, in characters.
	// ProcessPollWait is the default wait of a poll for output, ProcessMaxWait the maximum one, and ProcessSignalWait the
	// wait of a signal for the process's end. ProcessInputBytes is the maximum size of one write.
	ProcessOutputChars int             `toml:"process_output_chars"`
	ProcessPollWait    config.Duration `toml:"process_poll_wait"`
	ProcessMaxWait     config.Duration `toml:"process_max_wait"`
	ProcessSignalWait  config.Duration `toml:"process_signal_wait"`
	ProcessInputBytes  int             `toml:"process_input_bytes"`
	// EndedProcesses is the number of ended background processes remembered of a session, ProcessSessions the number of
	// sessions whose tables are in memory, and ProcessesKeptFor the time for which a session's table is kept after its
	// last change.
	EndedProcesses   int             `toml:"ended_processes"`
	ProcessSessions  int             `toml:"process_sessions"`
	ProcessesKeptFor config.Duration `toml:"processes_kept_for"`
	// DebugTimeout is the default wait of debug for a program to stop, DebugMaxTimeout the maximum one.
	DebugTimeout    config.Duration `toml:"debug_timeout"`
	DebugMaxTimeout config.Duration `toml:"debug_max_timeout"`
	// LateEvery is the interval of checks for ended background processes while no run of their session is held.
	LateEvery config.Duration `toml:"late_every"`
	// KeepRuns is the time for which a run that a harness hands over is kept for the next harness, with its cages and
	// processes.
	KeepRuns config.Duration `toml:"keep_runs"`

	// ToolsFile declares the operator's commands that agents use as tools; if it is empty, tools.yaml beside local.toml.
	ToolsFile string `toml:"tools_file"`
	// CLITimeout is the time limit of such a command if its entry sets none, CLIOutputBytes the retained size of each of
	// its two output streams, CLIValueBytes the maximum size of a value in a call.
	CLITimeout     config.Duration `toml:"cli_timeout"`
	CLIOutputBytes int             `toml:"cli_output_bytes"`
	CLIValueBytes  int             `toml:"cli_value_bytes"`

	// ProjectFiles, ProjectFileBytes and ProjectTotalBytes limit ReadProject: the number of files, the size of one if the
	// caller sets none, and the total size.
	ProjectFiles      int   `toml:"project_files"`
	ProjectFileBytes  int64 `toml:"project_file_bytes"`
	ProjectTotalBytes int64 `toml:"project_total_bytes"`

	// ChangeFileBytes is the maximum size of a file whose content before a session's first change is kept,
	// ChangeSessionBytes the maximum total size of a session, and ChangesKeptFor the time for which they are kept after
	// the last new one.
	ChangeFileBytes    int64           `toml:"change_file_bytes"`
	ChangeSessionBytes int64           `toml:"change_session_bytes"`
	ChangesKeptFor     config.Duration `toml:"changes_kept_for"`
}

// DefaultConfig returns the values of the specification.
func DefaultConfig() Config {
	return Config{
		BlockedCommands:     []string{"rm", "sudo", "shutdown", "reboot", "mkfs*", "dd", "chmod 777"},
		DestructiveCommands: destructive(), SystemPaths: system(),
		LockWait: config.Duration(5 * time.Second), AfterEdit: afterEditErrors, AfterEditWait: config.Duration(time.Second),
		ToolTimeout: config.Duration(120 * time.Second), AuditValueBytes: redact.ValueBytes,
		KeptResults: 256, KeptBytes: 64 << 20, KeptFor: config.Duration(10 * time.Minute),
		OutputEvery: config.Duration(25 * time.Millisecond), OutputBytes: 256 << 10,
		ReadRecordSessions: 4096, ReadRecordFiles: 8192,
		ReadBytes: 512 << 10, ReadPageBytes: 50 << 10, ReadLineChars: 2000, ReadFileBytes: 1 << 30,
		EditFileBytes: 32 << 20, DiffBytes: 16 << 10, ListEntries: 2000, PatchFiles: 200, PatchTotalBytes: 128 << 20,
		SearchWorkers: min(runtime.GOMAXPROCS(0), maxSearchWorkers), SearchTimeout: config.Duration(60 * time.Second),
		SearchOutputBytes: 256 << 10, GlobFiles: 100, IssueOutputBytes: 64 << 10,
		MemoryFiles: 20_000, MemoryFileBytes: 1 << 20, MemoryTotalBytes: 32 << 20, MemoryKeptBytes: 64 << 20,
		MemorySnippetChars: 700,
		SyntaxFileBytes:    4 << 20, SyntaxNodes: 8 << 20, SyntaxParsers: min(runtime.GOMAXPROCS(0), maxSearchWorkers),
		ShellTimeout: config.Duration(120 * time.Second), ShellMinTimeout: config.Duration(time.Second),
		ShellMaxTimeout: config.Duration(600 * time.Second), ShellGrace: config.Duration(15 * time.Second),
		ShellCommandBytes: 64 << 10, ShellEnvEntries: 64, ShellOutputBytes: 1 << 20, BashOutputBytes: 200 << 10,
		ShellAuditChars: 200,
		ExecTimeout:     config.Duration(30 * time.Minute), ExecMinTimeout: config.Duration(10 * time.Second),
		ExecMaxTimeout: config.Duration(24 * time.Hour), ExecOutputChars: 100_000,
		ProcessOutputChars: 10_000, ProcessPollWait: config.Duration(time.Second),
		ProcessMaxWait:    config.Duration(time.Minute),
		ProcessSignalWait: config.Duration(time.Second), ProcessInputBytes: 64 << 10,
		EndedProcesses: 64, ProcessSessions: 4096, ProcessesKeptFor: config.Duration(7 * 24 * time.Hour),
		LateEvery:    config.Duration(5 * time.Second),
		KeepRuns:     config.Duration(30 * time.Second),
		DebugTimeout: config.Duration(30 * time.Second), DebugMaxTimeout: config.Duration(5 * time.Minute),
		CLITimeout: config.Duration(120 * time.Second), CLIOutputBytes: 200 << 10, CLIValueBytes: 64 << 10,
		ProjectFiles: 256, ProjectFileBytes: 1 << 20, ProjectTotalBytes: 12 << 20,
		ChangeFileBytes: 5 << 20, ChangeSessionBytes: 256 << 20, ChangesKeptFor: config.Duration(30 * 24 * time.Hour),
	}
}

// destructive are commands with effects outside the project or without an undo.
func destructive() []string {
	return []string{
		"unlink", "shred", "truncate", "wipefs", "fdisk", "sfdisk", "parted", "mkswap", "mount", "umount", "chown", "chgrp",
		"su", "doas", "pkexec", "runuser", "chroot", "nsenter", "unshare", "halt", "poweroff", "init 0", "init 6", "telinit",
		"systemctl", "service",
		"killall", "pkill", "useradd", "userdel", "usermod", "groupadd", "groupdel", "passwd", "chpasswd", "visudo",
		"crontab", "at",
		"iptables", "ip6tables", "nft", "ufw", "insmod", "rmmod", "modprobe", "sysctl",
		"git push --force*", "git push -f", "git push +*", "git push --delete", "git push -d", "git push :?*",
		"git push --mirror", "git push --prune", "git reset --hard", "git clean", "git filter-branch",
		"git branch -D", "git branch -d -f", "git branch -d --force", "git branch --delete -f", "git branch --delete --force",
		"git stash drop", "git stash clear", "git reflog expire", "git update-ref", "git checkout -f", "git checkout --force",
		"docker rm", "docker rmi", "docker system", "docker volume", "docker run --privileged", "podman rm", "podman rmi",
		"kubectl delete", "kubectl drain", "helm uninstall", "terraform destroy", "terraform apply", "tofu destroy",
		"tofu apply",
		"npm publish", "npm unpublish", "yarn publish", "pnpm publish", "cargo publish", "twine upload", "gem push",
		"gh repo delete", "gh release delete", "aws * delete*", "aws s3 rm", "aws s3 rb", "gcloud * delete", "dropdb",
		"dropuser",
		"rsync --delete*", "apt remove", "apt purge", "apt-get remove", "apt-get purge", "dnf remove", "yum remove",
		"apk del", "pacman -R",
	}
}

// system are paths that decide the behaviour of programs outside the agent's reach: the system's, users' keys and shell
// startup files, and files that git and kaged run or trust.
func system() []string {
	return []string{
		"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr",
		"/var/lib", "/var/log", "/var/spool", "/System", "/Library", "/private/etc",
		"~/.ssh", "~/.gnupg", "~/.aws", "~/.kube", "~/.bashrc", "~/.bash_profile", "~/.profile", "~/.zshrc", "~/.zshenv",
		"~/.gitconfig",
		"~/.config/systemd", "~/.config/autostart", "~/.config/git",
		".git", ".kaged",
	}
}

// maxSearchWorkers is the number of goroutines above which a search only waits for the disk or the kernel's locks.
const maxSearchWorkers = 8

// Validate refuses limits that would make every call fail, and invalid paths.
func (c Config) Validate() error {
	home := homeFolder()
	limits := reflect.ValueOf(c)
	for i := range limits.NumField() {
		if f := limits.Field(i); f.CanInt() && f.Int() <= 0 {
			return fault.New(fault.BadRequest, "services.tool-runner.%s must be greater than zero.", limits.Type().
				Field(i).Tag.Get("toml"))
		}
	}
	if c.AfterEdit != afterEditErrors && c.AfterEdit != afterEditOff {
		return fault.New(fault.BadRequest, "services.tool-runner.after_edit must be errors or off, not %q.", c.AfterEdit)
	}
	if c.AfterEditWait.D() > time.Second {
		return fault.New(fault.BadRequest, "services.tool-runner.after_edit_wait must not be longer than 1s.")
	}
	if c.ShellMinTimeout > c.ShellMaxTimeout {
		return fault.New(fault.BadRequest, "services.tool-runner.shell_min_timeout must not be greater than "+
			"shell_max_timeout.")
	}
	if c.ExecMinTimeout > c.ExecMaxTimeout {
		return fault.New(fault.BadRequest, "services.tool-runner.exec_min_timeout must not be greater than exec_max_timeout.")
	}
	if home == "" && !slices.Equal(c.SystemPaths, system()) && slices.ContainsFunc(c.SystemPaths, atHome) {
		return fault.New(fault.BadRequest,
			"services.tool-runner.system_paths names ~, and the user kaged runs as has no home; write the whole path.")
	}
	return c.rules(home).Check()
}

// The values of after_edit.
const (
	afterEditErrors = "errors"
	afterEditOff    = "off"
)

// afterEdit is the wait of a result for errors, 0 for none.
func (c Config) afterEdit() time.Duration {
	if c.AfterEdit == afterEditOff {
		return 0
	}
	return c.AfterEditWait.D()
}

func (c Config) rules(home string) paths.Rules {
	return paths.Rules{Allowed: c.AllowedPaths, Denied: c.DeniedPaths, Home: home}
}

// homeFolder returns the home of the service's user, "" without one.
func homeFolder() string {
	if dir, err := os.UserHomeDir(); err == nil && filepath.IsAbs(dir) {
		return dir
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir
	}
	return ""
}

// atHome reports whether a path is one below a home.
func atHome(name string) bool { return name == "~" || strings.HasPrefix(name, "~/") }

// systemPaths returns the system paths, and the targets of those that are links or lead through one. Without a home the
// paths below it are left out.
func (c Config) systemPaths(home string) []string {
	var list []string
	for _, name := range c.SystemPaths {
		if atHome(name) && home == "" {
			continue
		}
		list = append(list, name)
		full := strings.TrimSuffix(name, "/**")
		if atHome(name) {
			full = filepath.Join(home, full[1:])
		}
		if real, err := filepath.EvalSymlinks(full); err == nil && filepath.IsAbs(full) && real != full {
			list = append(list, real)
		}
	}
	return list
}

// options converts the configuration for core.
func (c Config) options() core.Options {
	home := homeFolder()
	return core.Options{
		LateEvery: c.LateEvery.D(), KeepRuns: c.KeepRuns.D(),
		Rules: c.rules(home),
		Safety: shellguard.Rules{
			Blocked: c.BlockedCommands, Destructive: c.DestructiveCommands, System: c.systemPaths(home), Home: home,
		},
		Dispatch: dispatch.Options{LockWait: c.LockWait.D(), Timeout: c.ToolTimeout.D(), AuditValue: c.AuditValueBytes},
		Calls: calls.Options{
			Kept: c.KeptResults, KeptBytes: c.KeptBytes, KeptFor: c.KeptFor.D(),
			OutputEvery: c.OutputEvery.D(), OutputBytes: c.OutputBytes,
		},
		Tools: tools.Limits{
			ReadBytes: c.ReadBytes, PageBytes: c.ReadPageBytes, LineRunes: c.ReadLineChars, ReadFile: c.ReadFileBytes,
			EditFile: c.EditFileBytes, DiffBytes: c.DiffBytes, ListEntries: c.ListEntries,
			AfterEdit: c.afterEdit(), PatchFiles: c.PatchFiles, PatchBytes: c.PatchTotalBytes, IssueBytes: c.IssueOutputBytes,
			Search: tools.SearchLimits{
				Workers: c.SearchWorkers, Timeout: c.SearchTimeout.D(), OutputBytes: c.SearchOutputBytes,
				LineRunes: c.ReadLineChars,
				GlobFiles: c.GlobFiles, HideOutside: c.HideOutsideCage,
			},
			Memory: tools.MemoryLimits{
				Notes: memories.Limits{
					Files: c.MemoryFiles, FileBytes: c.MemoryFileBytes, TotalBytes: c.MemoryTotalBytes, KeptBytes: c.MemoryKeptBytes,
				},
				SnippetRunes: c.MemorySnippetChars,
			},
			Debug:  tools.DebugLimits{DefaultTimeout: c.DebugTimeout.D(), MaxTimeout: c.DebugMaxTimeout.D()},
			Syntax: tools.SyntaxLimits{FileBytes: c.SyntaxFileBytes, Nodes: c.SyntaxNodes, Parsers: c.SyntaxParsers},
			Shell: tools.ShellLimits{
				CommandBytes: c.ShellCommandBytes, EnvEntries: c.ShellEnvEntries, DefaultTimeout: c.ShellTimeout.D(),
				MinTimeout: c.ShellMinTimeout.D(), MaxTimeout: c.ShellMaxTimeout.D(), Grace: c.ShellGrace.D(),
				OutputBytes: c.ShellOutputBytes, BashOutputBytes: c.BashOutputBytes, AuditRunes: c.ShellAuditChars,
				Exec: tools.ExecLimits{
					DefaultTimeout: c.ExecTimeout.D(), MinTimeout: c.ExecMinTimeout.D(), MaxTimeout: c.ExecMaxTimeout.D(),
					OutputRunes: c.ExecOutputChars,
				},
				Process: tools.ProcessLimits{
					OutputRunes: c.ProcessOutputChars, PollWait: c.ProcessPollWait.D(), MaxWait: c.ProcessMaxWait.D(),
					SignalWait: c.ProcessSignalWait.D(), InputBytes: c.ProcessInputBytes,
				},
			},
		},
		CLI: clitools.Limits{
			Timeout: c.CLITimeout.D(), Grace: c.ShellGrace.D(), OutputBytes: c.CLIOutputBytes, ValueBytes: c.CLIValueBytes,
			AuditRunes: c.ShellAuditChars,
		},
		Project: project.Options{
			Files: c.ProjectFiles, FileBytes: c.ProjectFileBytes, TotalBytes: c.ProjectTotalBytes,
		},
		Changes: changes.Limits{
			FileBytes: c.ChangeFileBytes, SessionBytes: c.ChangeSessionBytes, KeptFor: c.ChangesKeptFor.D(),
		},
		Processes: processes.Options{
			KeptFor: c.ProcessesKeptFor.D(), Ended: c.EndedProcesses, Sessions: c.ProcessSessions, Patience: c.ShellGrace.D(),
		},
		Sessions: c.ReadRecordSessions, Files: c.ReadRecordFiles,
	}
}
