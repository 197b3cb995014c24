// Package checkup checks a machine for kaged and suggests fixes. It changes no state and uses no network.
package checkup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	pgembedded "kaged.dev/pkg/postgres/embedded"
	"kaged.dev/services/kaged/internal/daemon"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// State is the state of one check.
type State string

// The states of a check. Only Missing prevents kaged from working.
const (
	// OK is a passed check.
	OK State = "ok"
	// Warning is a working part with a setting that may not be intended.
	Warning State = "warning"
	// Optional is a missing part that kaged can do without.
	Optional State = "optional"
	// Missing is a missing part that kaged needs.
	Missing State = "missing"
)

// The states of a layer of cages, with the supervisor's names.
const (
	Enforced   = "enforced"
	BestEffort = "best_effort"
)

// Check is the result of one check.
type Check struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Detail is the finding, Fix the remedy if there is one.
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// Cages describes the machine's support for cages.
type Cages struct {
	// Tier is the way cages are enforced, empty if cages are unavailable; Unavailable is the reason then.
	Tier        string  `json:"tier"`
	Unavailable string  `json:"unavailable,omitempty"`
	Layers      []Layer `json:"layers"`
	// Elsewhere names the place where cages run, if it is not this container; no cage is tried then.
	Elsewhere string `json:"elsewhere,omitempty"`
}

// Layer is one part of a cage.
type Layer struct {
	Name  string `json:"name"`
	State string `json:"state"`
	// By is the enforcing mechanism, Reason the reason why it is not enforced, Fix the command or setting that enables it.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	Fix    string `json:"fix,omitempty"`
}

// Report is the result of the checks.
type Report struct {
	// OK is true if no needed part is missing and cages can be made.
	OK     bool    `json:"ok"`
	Cages  Cages   `json:"cages"`
	Checks []Check `json:"checks"`
	// LanguageServers are the servers for the tool code.lsp, by language. All are optional.
	LanguageServers []LanguageServer `json:"language_servers"`
}

// Machine is the machine under test.
type Machine struct {
	ConfigPath, DataDir string
	// Listen is the address of a daemon on this machine.
	Listen string
	Getenv func(string) string
	// Probe requests this machine's support for cages from a supervisor.
	Probe func(context.Context) (*sandboxsupervisorv1.ProbeCagesResponse, error)
	// LanguageServers finds the programs of language servers; nil if they run elsewhere.
	LanguageServers func(context.Context) ([]*lsppoolv1.FoundServer, error)
	// Services checks the tables of the services.
	Services func(*config.File) error
	// Gateway reports whether a gateway in another process answers; nil for no.
	Gateway func(context.Context) bool
	// Container is the kaged image that this process runs in.
	Container Container
}

// Look runs all checks.
func Look(ctx context.Context, m Machine) Report {
	look := m.whole
	if m.Container != "" {
		look = m.contained
	}
	r := look(ctx)
	r.LanguageServers = m.languageServers(ctx)
	if config.True(m.Getenv("KAGED_NO_SANDBOX")) {
		r.Checks = append(r.Checks, Check{
			"sandbox", Warning, "KAGED_NO_SANDBOX is set: agents that ask for a cage work without one", "unset KAGED_NO_SANDBOX",
		})
	}
	r.OK = (r.Cages.Tier != "" || r.Cages.Elsewhere != "") &&
		!slices.ContainsFunc(r.Checks, func(c Check) bool { return c.State == Missing })
	return r
}

// whole returns the checks of a machine that runs all services.
func (m Machine) whole(ctx context.Context) Report {
	r := Report{Cages: m.cages(ctx)}
	file, read := m.configuration()
	r.Checks = append([]Check{m.dataDir(ctx), read}, m.models(file)...)
	r.Checks = append(r.Checks, m.postgres(ctx, file), m.listener(ctx), git(ctx))
	return r
}

func (m Machine) cages(ctx context.Context) Cages {
	found, err := m.Probe(ctx)
	if err != nil {
		return Cages{Unavailable: fault.From(err).Msg, Layers: []Layer{}}
	}
	return FromProbe(found)
}

//convert:one FromProbe *sandboxsupervisorv1.ProbeCagesResponse Cages >list >Elsewhere=-
//convert:one layer *sandboxsupervisorv1.CageLayer Layer

// dataDir checks that the data directory is writable, or names its owner.
func (m Machine) dataDir(ctx context.Context) Check {
	c := Check{Name: "data directory", State: OK, Detail: m.DataDir}
	ctx, cancel := context.WithCancel(ctx)
	cancel() // Owner must not wait for a daemon that is starting
	info, running, err := daemon.Find(ctx, m.DataDir)
	switch {
	case running:
		c.Detail = fmt.Sprintf("%s, in use by kaged pid %d at %s", m.DataDir, info.PID, info.URL)
		return c
	case errors.Is(err, context.Canceled):
		c.Detail = m.DataDir + ", in use by a kaged that is starting"
		return c
	}
	// The first existing folder on the way up decides whether the rest can be created.
	at := m.DataDir
	for {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			return Check{c.Name, Missing, at + " is not a folder", "kaged up --data-dir DIR"}
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return Check{c.Name, Missing, m.DataDir + " cannot be reached: " + err.Error(), "kaged up --data-dir DIR"}
		}
		at = filepath.Dir(at)
	}
	if !writable(at) {
		return Check{c.Name, Missing, at + " cannot be written", "sudo chown $(id -u) " + at}
	}
	if at != m.DataDir {
		c.Detail += ", created at the first start"
	}
	return c
}

// configuration reads local.toml. It returns nil for a configuration that cannot be used.
func (m Machine) configuration() (*config.File, Check) {
	c := Check{Name: "configuration", State: OK, Detail: m.ConfigPath}
	file, err := config.Load(m.ConfigPath)
	if err == nil {
		err = m.Services(file)
	}
	if err != nil {
		return nil, Check{c.Name, Missing, fault.From(err).Msg, "kaged config check"}
	}
	if _, err := os.Stat(m.ConfigPath); errors.Is(err, fs.ErrNotExist) {
		c.Detail += " does not exist yet, which counts as empty"
	}
	return file, c
}

// models returns a check of each alias, with its target or the missing parts.
func (m Machine) models(file *config.File) []Check {
	if file == nil {
		return nil
	}
	if len(file.Models) == 0 {
		return []Check{
			{
				"models", Warning, "no alias is bound, so no agent can work",
				"kaged init, with ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY set, or Ollama running",
			},
		}
	}
	var list []Check
	for _, alias := range slices.Sorted(maps.Keys(file.Models)) {
		list = append(list, m.model(file, alias))
	}
	return list
}

// model checks the target of an alias. One usable target is enough, because kaged uses the next target if one is not
// usable.
func (m Machine) model(file *config.File, alias string) Check {
	named := make([]string, len(file.Models[alias]))
	for i, target := range file.Models[alias] {
		named[i] = target
		if name := modelName(file, target); name != "" {
			named[i] += " (" + name + ")"
		}
	}
	c := Check{Name: "model " + alias, State: OK, Detail: strings.Join(named, ", then ")}
	usable, fix := 0, ""
	for _, target := range file.Models[alias] {
		name, model, _ := config.SplitTarget(target)
		provider, there := file.Providers[name]
		if !there {
			c.Detail += "; the provider " + name + " is not configured"
			fix = cmp.Or(fix, "kaged config set providers."+name+".driver DRIVER")
			continue
		}
		missing := m.unset(provider.APIKey, provider.BaseURL, model)
		if len(missing) == 0 {
			usable++
			continue
		}
		c.Detail += "; $" + strings.Join(missing, " and $") + " not set here"
		fix = MissingKey(m.Getenv, missing[0])
	}
	if usable == 0 {
		c.State, c.Fix = Warning, fix
	}
	return c
}

// modelName returns the operator's name for a target, or "".
func modelName(file *config.File, target string) string {
	provider, model, _ := config.SplitTarget(target)
	for _, m := range file.Providers[provider].Models {
		if m.ID == model {
			return m.Name
		}
	}
	return ""
}

// unset returns the unset variables that texts refer to. It returns none if the variables belong to another container.
func (m Machine) unset(texts ...string) []string {
	if KeysElsewhere(m.Getenv) {
		return nil
	}
	var names []string
	for _, text := range texts {
		_, missing := config.Expand(text)
		names = append(names, missing...)
	}
	return names
}

// postgres checks for the database server, or reports the configured one.
func (m Machine) postgres(ctx context.Context, file *config.File) Check {
	c := Check{Name: "PostgreSQL", State: OK}
	if m.Getenv("KAGED_DATABASE_URL") != "" || file != nil && file.Database.URL != "" {
		c.Detail = "your own server, not tested"
		return c
	}
	version, bin, err := pgembedded.Look(ctx, pgembedded.Options{DataDir: m.DataDir, Getenv: m.Getenv})
	if err != nil {
		what, fix, found := strings.Cut(fault.From(err).Msg, "; ")
		if !found {
			fix = "set KAGED_DATABASE_URL to a server of your own"
		}
		return Check{c.Name, Missing, what, strings.TrimPrefix(fix, "type: ")}
	}
	c.Detail = version + " in " + bin
	return c
}

// listener checks whether the address of a daemon is free, or names that of the running one.
func (m Machine) listener(ctx context.Context) Check {
	const used = ", in use by the running kaged"
	c := Check{Name: "address", State: OK, Detail: m.Listen}
	done, cancel := context.WithCancel(ctx)
	cancel() // Find must not wait for a daemon that is starting
	if info, running, _ := daemon.Find(done, m.DataDir); running {
		if at, err := url.Parse(info.URL); err == nil && at.Host != "" {
			c.Detail = at.Host + used
			return c
		}
	}
	listening := net.ListenConfig{}
	l, err := listening.Listen(ctx, "tcp", m.Listen)
	if err == nil {
		l.Close()
		return c
	}
	if m.Gateway != nil && m.Gateway(ctx) {
		c.Detail += used
		return c
	}
	return Check{c.Name, Warning, m.Listen + " is taken by another program", "kaged up --listen 127.0.0.1:0"}
}

// git checks for git, which kaged itself does not need but agents usually do.
func git(ctx context.Context) Check {
	path, err := exec.LookPath("git")
	if err != nil {
		return Check{
			"git", Optional, "not installed; agents need it to work in repositories", "sudo apt-get install -y git",
		}
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return Check{"git", Optional, path + " does not run: " + err.Error(), ""}
	}
	return Check{
		Name: "git", State: OK, Detail: strings.TrimPrefix(strings.TrimSpace(string(out)), "git version ") + " in " + path,
	}
}
