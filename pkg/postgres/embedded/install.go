package embedded

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// oldestMajor is the oldest supported major version of PostgreSQL.
const oldestMajor = 14

// probeLimit is the time limit of a program that prints one line.
const probeLimit = 10 * time.Second

// tooSlow is the error of a start that ended while it looked for PostgreSQL.
const tooSlow = "Finding PostgreSQL on this machine took too long."

// installation is a set of PostgreSQL binaries and the account that can run them.
type installation struct {
	bin     string
	version string // such as 15.13
	major   int
	account account
}

func (i installation) command(name string) string { return filepath.Join(i.bin, name) }

// findInstallation selects the binaries: those that fit an existing cluster, else the first in the search order.
func findInstallation(ctx context.Context, getenv func(string) string, p paths) (installation, error) {
	want, err := clusterMajor(p.data)
	if err != nil {
		return installation{}, err
	}
	bins := searchOrder(ctx, getenv)
	if ctx.Err() != nil {
		return installation{}, ended(ctx, tooSlow)
	}
	if named := getenv("KAGED_PG_BIN"); len(bins) == 0 && named != "" {
		return installation{}, failed(nil, "KAGED_PG_BIN names %s, and there is no initdb and postgres in it.", named)
	}
	if len(bins) == 0 {
		return installation{}, failed(nil, "PostgreSQL is not installed; %s", installHint(want))
	}
	// The folders of distributions carry the major version in their names, so the right one is usually tried first.
	slices.SortStableFunc(bins, func(a, b string) int { return fits(b, want) - fits(a, want) })
	var others []string
	var lastErr error
	for _, bin := range bins {
		install, err := probe(ctx, bin, p)
		switch {
		case ctx.Err() != nil: // which also ended the probe
			return installation{}, ended(ctx, tooSlow)
		case err != nil:
			lastErr = err
		case want != 0 && install.major != want, install.major < oldestMajor:
			others = append(others, strconv.Itoa(install.major))
		default:
			return install, nil
		}
	}
	switch {
	case len(others) == 0:
		return installation{}, lastErr
	case want != 0 && want < oldestMajor:
		return installation{}, conflict(
			nil,
			"The database in %s was made by PostgreSQL %d, and kaged needs %d or newer; bring it over with pg_upgrade.",
			p.data,
			want,
			oldestMajor,
		)
	case want != 0:
		return installation{}, conflict(
			nil,
			"The database in %s was made by PostgreSQL %d, and this machine has only PostgreSQL %s; %s",
			p.data,
			want,
			strings.Join(others, ", "),
			installHint(want),
		)
	}
	return installation{}, failed(
		nil,
		"PostgreSQL %s is older than %d; %s",
		strings.Join(others, ", "),
		oldestMajor,
		installHint(0),
	)
}

func fits(bin string, major int) int {
	if major != 0 &&
		slices.Contains(
			strings.FieldsFunc(bin, func(r rune) bool { return strings.ContainsRune("/@-\\", r) }),
			strconv.Itoa(major),
		) {
		return 1
	}
	return 0
}

// clusterMajor reads the major version of an existing cluster, 0 without a cluster.
func clusterMajor(data string) (int, error) {
	text, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(data); err == nil {
			return 0, conflict(nil, "%s is not the data of a PostgreSQL server; move it away.", data)
		}
		return 0, nil
	}
	if err != nil {
		return 0, conflict(err, "The database in %s cannot be read; start kaged as the user that made it.", data)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, conflict(err, "%s is not the data of a PostgreSQL server that kaged knows; move it away.", data)
	}
	return major, nil
}

// searchOrder lists the folders with both initdb and postgres, best first, each once.
func searchOrder(ctx context.Context, getenv func(string) string) []string {
	var found []string
	add := func(dirs ...string) {
		for _, dir := range dirs {
			if dir == "" || !executable(filepath.Join(dir, "initdb")) || !executable(filepath.Join(dir, "postgres")) {
				continue
			}
			if real, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres")); err == nil {
				dir = filepath.Dir(real)
			}
			if !slices.Contains(found, dir) {
				found = append(found, dir)
			}
		}
	}
	if explicit := getenv("KAGED_PG_BIN"); explicit != "" {
		add(explicit)
		return found
	}
	add(newest("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")...)
	for _, dir := range filepath.SplitList(getenv("PATH")) {
		if config := filepath.Join(dir, "pg_config"); executable(config) {
			ctx, cancel := context.WithTimeout(ctx, probeLimit)
			out, _ := exec.CommandContext(ctx, config, "--bindir").Output()
			cancel()
			add(strings.TrimSpace(string(out)))
		}
		add(dir)
	}
	add(newest("/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin", "/opt/homebrew/opt/postgresql/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin")...)
	return found
}

func executable(path string) bool {
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode().Perm()&0o111 != 0)
}

var number = regexp.MustCompile(`\d+`)

// newest expands the patterns, each with the highest version first.
func newest(patterns ...string) []string {
	var all []string
	for _, pattern := range patterns {
		dirs, _ := filepath.Glob(pattern)
		slices.SortFunc(dirs, func(a, b string) int { return versionIn(b) - versionIn(a) })
		all = append(all, dirs...)
	}
	return all
}

func versionIn(path string) int {
	n, _ := strconv.Atoi(number.FindString(path))
	return n
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) ((\d+)[^\s]*)`)

// probe finds the account that can run the binaries, and their version.
func probe(ctx context.Context, bin string, p paths) (installation, error) {
	accounts, err := accountsFor(p)
	if err != nil {
		return installation{}, err
	}
	var causes []error
	for _, acc := range accounts {
		out, err := runQuiet(ctx, acc, filepath.Join(bin, "postgres"), "--version")
		match := versionLine.FindStringSubmatch(out)
		if err != nil || match == nil {
			causes = append(causes, errors.Join(err, errors.New(acc.String()+": "+out)))
			continue
		}
		major, _ := strconv.Atoi(match[2])
		return installation{bin: bin, version: match[1], major: major, account: acc}, nil
	}
	cause := errors.Join(causes...)
	if os.Geteuid() == 0 {
		return installation{}, failed(
			cause,
			"PostgreSQL in %s does not run as root, and neither as postgres, nobody nor in a user namespace here; start "+
				"kaged as an ordinary user.",
			bin,
		)
	}
	return installation{}, failed(cause, "PostgreSQL in %s does not run.", bin)
}

func runQuiet(ctx context.Context, acc account, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = "/", environment()
	acc.apply(cmd)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := run(cmd)
	return out.String(), err
}

// run runs a program of PostgreSQL to its end.
func run(cmd *exec.Cmd) error {
	if err := start(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}

// environment is the complete environment of PostgreSQL's programs: messages in one language, and no PG* variables.
func environment() []string {
	env := []string{"LC_ALL=C", "TZ=UTC", "PATH=" + os.Getenv("PATH")}
	if runtime.GOOS == "windows" {
		env = append(env, "SYSTEMROOT="+os.Getenv("SYSTEMROOT"))
	}
	return env
}

// createClusterConf is the file that tells Debian's package whether to create a database server at installation.
const createClusterConf = "/etc/postgresql-common/createcluster.conf"

// debianHint are the commands for Debian and Ubuntu. If createClusterConf does not exist, they prevent the package from
// creating a server, which kaged does not use.
func debianHint(pkg string, root, decided bool) string {
	sudo := "sudo "
	if root {
		sudo = ""
	}
	install := sudo + "apt-get install -y --no-install-recommends " + pkg
	if decided {
		return install
	}
	return sudo + "mkdir -p " + filepath.Dir(
		createClusterConf,
	) + " && echo 'create_main_cluster = false' | " + sudo + "tee " + createClusterConf + " && " + install
}

// installHint is the installation command for this system, as the second half of a sentence.
func installHint(major int) string {
	version := ""
	if major != 0 {
		version = "-" + strconv.Itoa(major)
	}
	switch {
	case runtime.GOOS == "darwin":
		return "type: brew install postgresql" + strings.Replace(version, "-", "@", 1)
	case exists("/etc/debian_version"):
		return "type: " + debianHint("postgresql"+version, os.Geteuid() == 0, exists(createClusterConf))
	case exists("/etc/fedora-release"), exists("/etc/redhat-release"):
		return "type: sudo dnf install -y postgresql-server"
	case exists("/etc/alpine-release"):
		return "type: apk add postgresql" + strings.TrimPrefix(version, "-")
	case exists("/etc/arch-release"):
		return "type: sudo pacman -S postgresql"
	}
	return "install it, or name the folder of its programs in KAGED_PG_BIN, or an existing server in KAGED_DATABASE_URL"
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
