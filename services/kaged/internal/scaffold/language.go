package scaffold

import (
	"context"
	"encoding/json"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Needs are the requirements of a project's programs for a cage on this machine.
type Needs struct {
	// Languages are the languages found, for people: "Go", "Node.js".
	Languages []string
	// Net are the package registries, as rules of net.allow.
	Net []string
	// Read are folders of toolchains outside the system folders: absolute, without links.
	Read []string
	// Path are the folders in which commands are searched before SystemPath, the part of the user's PATH that every cage
	// shows.
	Path       []string
	SystemPath string
	// Env are variables other than PATH.
	Env map[string]string
}

// machine is the machine on which languages are detected.
type machine struct {
	// home is the user's home folder with links resolved; it may be empty.
	home   string
	getenv func(string) string
	// output runs a program in a folder and returns its output, "" if it fails.
	output func(dir, program string, args ...string) string
}

// language is one kind of project.
type language struct {
	name string
	// files are the files that identify its projects; one of them is enough.
	files []string
	// add finds the toolchain and adds its requirements.
	add func(n *Needs, m machine, dir string)
}

var languages = []language{
	{"Go", []string{"go.mod", "go.work"}, addGo},
	{"Node.js", []string{"package.json"}, addNode},
	{"Python", []string{"pyproject.toml", "requirements.txt", "setup.py", "setup.cfg", "Pipfile"}, addPython},
	{"Rust", []string{"Cargo.toml"}, addRust},
}

// lookTimeout is the time limit for each run of a toolchain's program.
const lookTimeout = 10 * time.Second

// Look finds the languages of the project in dir and the requirements of their toolchains for a cage. It runs the
// user's own programs, such as `go env`, and no program of the project.
func Look(ctx context.Context, dir string, getenv func(string) string) Needs {
	home, _ := filepath.EvalSymlinks(getenv("HOME"))
	m := machine{home, getenv, func(in, program string, args ...string) string {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Dir = in
		cmd.WaitDelay = time.Second
		out, err := cmd.Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}}
	n := Needs{Env: map[string]string{}, SystemPath: systemPath(getenv("PATH"))}
	for _, l := range languages {
		if slices.ContainsFunc(l.files, func(name string) bool { return isFile(filepath.Join(dir, name)) }) {
			n.Languages = append(n.Languages, l.name)
			l.add(&n, m, dir)
		}
	}
	return n
}

// goVariables are the settings of `go env -w` that affect the origin of modules and the build of packages; a cage does
// not have the user's settings.
var goVariables = []string{"GOFLAGS", "GOPRIVATE", "GONOSUMDB", "GOSUMDB", "GOEXPERIMENT"}

// addGo makes the modules in the user's cache available in the cage as a proxy, so that they need no network. The
// cage's own cache stays writable.
func addGo(n *Needs, m machine, dir string) {
	var env map[string]string
	for _, in := range []string{dir, "/"} { // outside the project if the module's files are invalid
		if json.Unmarshal([]byte(m.output(in, "go", "env", "-json")), &env) == nil {
			break
		}
	}
	if env == nil {
		n.reach("https://proxy.golang.org", "https://sum.golang.org")
		return
	}
	n.toolchain(m, env["GOROOT"], "bin/go")
	proxies := strings.FieldsFunc(env["GOPROXY"], func(r rune) bool { return r == ',' || r == '|' })
	n.reach(proxies...)
	if len(n.Net) > 0 { // downloads are first searched in it
		n.reach(checksums(env["GOSUMDB"]))
	}
	for _, name := range goVariables {
		if value := env[name]; value != "" && value != goDefaults[name] {
			n.Env[name] = value
		}
	}
	cache, err := filepath.EvalSymlinks(filepath.Join(env["GOMODCACHE"], "cache", "download"))
	if err != nil || !hasModules(dir) {
		if proxy := env["GOPROXY"]; proxy != goDefaults["GOPROXY"] && !secret(proxies) {
			n.Env["GOPROXY"] = proxy
		}
		return
	}
	n.Read = append(n.Read, cache)
	cached := "file://" + (&url.URL{Path: cache}).EscapedPath()
	if proxy := env["GOPROXY"]; proxy != "" && proxy != "off" && !secret(proxies) {
		cached += "," + proxy
	}
	n.Env["GOPROXY"] = cached
	if env["GOPRIVATE"]+env["GONOPROXY"] != "" {
		n.Env["GONOPROXY"] = "none" // the cache has private modules too; a cage has no credentials to download others
	}
}

// checksums returns the address of the checksum database in GOSUMDB, "" if it is off.
func checksums(setting string) string {
	name, at, _ := strings.Cut(setting, " ")
	if at != "" {
		return at
	}
	if host, _, _ := strings.Cut(name, "+"); host != "" && host != "off" {
		return "https://" + host
	}
	return ""
}

var goDefaults = map[string]string{"GOPROXY": "https://proxy.golang.org,direct", "GOSUMDB": "sum.golang.org"}

// hasModules reports whether the project has dependencies that may be in the module cache.
func hasModules(dir string) bool {
	return isFile(filepath.Join(dir, "go.sum")) || isFile(filepath.Join(dir, "go.work"))
}

// addNode runs npm outside the project: only the operator may allow registries of a project's .npmrc.
func addNode(n *Needs, m machine, _ string) {
	n.toolchain(m, above(m.output("/", "node", "-p", "process.execPath"), 2), "bin/node")
	registry := m.output("/", "npm", "config", "get", "registry")
	if registry == "" {
		registry = "https://registry.npmjs.org/"
	}
	n.reach(registry)
}

// addPython grants the interpreter of the project's virtual environment, or the one in PATH.
func addPython(n *Needs, m machine, dir string) {
	prefix := m.output("/", "python3", "-c", "import sys; print(sys.base_prefix)")
	for _, venv := range []string{".venv", "venv"} {
		at := filepath.Join(dir, venv)
		python, err := filepath.EvalSymlinks(filepath.Join(at, "bin", "python"))
		if err == nil && isFile(filepath.Join(at, "pyvenv.cfg")) {
			prefix = above(python, 2)
			n.Path = append(n.Path, filepath.Join(at, "bin"))
			break
		}
	}
	n.toolchain(m, prefix, "bin/python3")
	if index := m.getenv("PIP_INDEX_URL"); index != "" && !secret([]string{index}) {
		n.Env["PIP_INDEX_URL"] = index
		n.reach(index)
		return
	}
	n.reach("https://pypi.org", "https://files.pythonhosted.org")
}

func addRust(n *Needs, m machine, _ string) {
	n.toolchain(m, m.output("/", "rustc", "--print", "sysroot"), "bin/rustc")
	n.reach("https://index.crates.io", "https://static.crates.io")
}

// system are the folders that every cage shows.
var system = []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt"}

// systemPath is the part of a PATH that every cage shows.
func systemPath(path string) string {
	dirs := slices.DeleteFunc(
		filepath.SplitList(path),
		func(dir string) bool { return !within(filepath.Clean(dir), system...) },
	)
	if len(dirs) == 0 {
		return "/usr/local/bin:/usr/bin:/bin"
	}
	return strings.Join(dirs, ":")
}

// toolchain grants the folder of a toolchain outside the system folders, if it is one: it must contain the program, and
// no other files of the user.
func (n *Needs) toolchain(m machine, prefix, program string) {
	prefix, err := filepath.EvalSymlinks(prefix)
	if err != nil || !filepath.IsAbs(prefix) || within(prefix, system...) || !isFile(filepath.Join(prefix, program)) {
		return
	}
	if m.home != "" && (within(m.home, prefix) || prefix == filepath.Join(m.home, ".local")) {
		return
	}
	n.Read = append(n.Read, prefix)
	n.Path = append(n.Path, filepath.Join(prefix, filepath.Dir(program)))
}

// reach adds rules for the hosts of addresses. A cage cannot reach this machine itself.
func (n *Needs) reach(addresses ...string) {
	for _, address := range addresses {
		u, err := url.Parse(address)
		if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
			continue
		}
		if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
			continue
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		if rule := net.JoinHostPort(u.Hostname(), port); !slices.Contains(n.Net, rule) {
			n.Net = append(n.Net, rule)
		}
	}
}

// secret reports whether an address contains a credential, which must not be written to a file.
func secret(addresses []string) bool {
	return slices.ContainsFunc(addresses, func(a string) bool {
		u, err := url.Parse(a)
		return err != nil || u.User != nil
	})
}

// above returns the folder that many levels above a path, "" for no path.
func above(path string, levels int) string {
	if path == "" {
		return ""
	}
	for range levels {
		path = filepath.Dir(path)
	}
	return path
}

func within(path string, dirs ...string) bool {
	return slices.ContainsFunc(
		dirs,
		func(dir string) bool { return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") },
	)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == fs.FileMode(0)
}
