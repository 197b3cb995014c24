package embedded

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// hba is the access list: local sockets only, all logins with a password.
const hba = "local all all scram-sha-256\n"

// cluster is a database cluster with its programs and options.
type cluster struct {
	install installation
	paths   paths
	locks   *locks
	noSync  bool
}

// credentials are the passwords of the logins.
type credentials struct {
	Owner     string `json:"owner"`
	App       string `json:"app"`
	Superuser string `json:"superuser"`
}

// prepare creates a missing cluster. It is built under another name and renamed when complete, so that an interrupted
// start leaves no cluster or a complete one.
func (c cluster) prepare(ctx context.Context, log *slog.Logger) (credentials, error) {
	_, err := os.Lstat(c.paths.data)
	exists := err == nil
	creds, err := readCredentials(c.paths.creds)
	if err == nil && exists {
		return creds, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		creds, err = newCredentials(c.paths.creds)
	}
	if err != nil {
		return creds, failed(
			err,
			"The file %s with the passwords of the database cannot be used; remove it, and kaged makes new ones.",
			c.paths.creds,
		)
	}
	if exists {
		// The passwords were lost. A user with write access to this folder may set new ones.
		return creds, c.single(ctx, c.paths.data, passwordSQL(creds))
	}
	log.Info("making the database", "folder", c.paths.data, "version", c.install.version)
	return creds, c.create(ctx, creds)
}

func (c cluster) create(ctx context.Context, creds credentials) error {
	fresh := c.paths.fresh
	if err := os.RemoveAll(fresh); err != nil {
		return failed(err, "The folder %s cannot be removed.", fresh)
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return failed(err, "The folder %s cannot be made.", fresh)
	}
	if err := c.install.account.own(fresh); err != nil {
		return failed(err, "The folder %s cannot be given to the user PostgreSQL runs as.", fresh)
	}
	if err := c.initdb(ctx, fresh); err != nil {
		return err
	}
	if err := c.single(ctx, fresh, append(rolesSQL(), passwordSQL(creds)...)); err != nil {
		return err
	}
	// WriteFile keeps the file's owner, which may be another user.
	if err := os.WriteFile(filepath.Join(fresh, "pg_hba.conf"), []byte(hba), 0o600); err != nil {
		return failed(err, "The database in %s cannot be set up.", fresh)
	}
	if !c.noSync {
		if err := c.run(ctx, fresh, "", "initdb", "--sync-only"); err != nil {
			return err
		}
	}
	if err := os.Rename(fresh, c.paths.data); err != nil {
		return failed(err, "The database cannot be moved to %s.", c.paths.data)
	}
	return syncDir(c.paths.root)
}

func (c cluster) initdb(ctx context.Context, dir string) error {
	return c.run(
		ctx,
		dir,
		"",
		"initdb",
		"--username="+superuser,
		"--auth=trust",
		"--locale=C",
		"--encoding=UTF8",
		"--no-sync",
		"--no-instructions",
	)
}

func rolesSQL() []string {
	return []string{
		"create role " + ownerLogin + " login createdb createrole",
		"create role " + appLogin + " login",
		"grant " + appLogin + " to " + ownerLogin + " with admin option",
		"create database " + database + " owner " + ownerLogin,
	}
}

func passwordSQL(creds credentials) []string {
	return []string{
		"alter role " + ownerLogin + " password '" + creds.Owner + "'",
		"alter role " + appLogin + " password '" + creds.App + "'",
		"alter role " + superuser + " password '" + creds.Superuser + "'",
	}
}

// single runs statements on a cluster without a running server, in PostgreSQL's single-user mode, which needs no
// password and opens no socket.
func (c cluster) single(ctx context.Context, dir string, statements []string) error {
	args := []string{"--single"}
	for _, s := range append(c.durability(), "log_min_error_statement=panic", "exit_on_error=on") {
		args = append(args, "-c", s)
	}
	return c.run(ctx, dir, strings.Join(statements, "\n")+"\n", "postgres", append(args, "postgres")...)
}

// run runs one of PostgreSQL's programs on the cluster in dir and keeps its output for the error. Like a server, the
// program holds the server's lock and ends with this process.
func (c cluster) run(ctx context.Context, dir, stdin, program string, args ...string) error {
	runtime.LockOSThread() // see startProcess
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, c.install.command(program))
	cmd.WaitDelay = time.Second
	c.locks.inherit(cmd)
	name, done, err := c.install.account.folder(cmd, dir)
	if err != nil {
		return err
	}
	defer done()
	if program == "postgres" {
		cmd.Args = append(cmd.Args, args[0], "-D", name)
		cmd.Args = append(cmd.Args, args[1:]...)
	} else {
		cmd.Args = append(cmd.Args, append([]string{"-D", name}, args...)...)
	}
	cmd.Dir, cmd.Env = "/", environment()
	c.install.account.apply(cmd)
	bind(cmd)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &out
	if err := run(cmd); err != nil {
		if ctx.Err() != nil {
			return ended(ctx, "Making the database took too long.")
		}
		return failed(fmt.Errorf("%s %s: %w: %s", program, c.install.account, err, strings.TrimSpace(out.String())),
			"PostgreSQL could not make its database in %s; the log has its reason.", dir)
	}
	return nil
}

func readCredentials(path string) (credentials, error) {
	var creds credentials
	text, err := os.ReadFile(path)
	if err != nil {
		return creds, err
	}
	if err := json.Unmarshal(text, &creds); err != nil {
		return creds, err
	}
	if creds.Owner == "" || creds.App == "" || creds.Superuser == "" {
		return creds, errors.New("a password is missing")
	}
	return creds, nil
}

// newCredentials makes passwords and stores them atomically before they are used.
func newCredentials(path string) (credentials, error) {
	creds := credentials{Owner: password(), App: password(), Superuser: password()}
	text, err := json.Marshal(creds)
	if err != nil {
		return creds, err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "credentials-*") // created with mode 0600
	if err != nil {
		return creds, err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(append(text, '\n'))
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	return creds, err
}

// password consists of characters that need no quoting.
func password() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// syncDir makes a rename durable. Systems that cannot sync folders keep the order of operations themselves.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return failed(err, "The folder %s cannot be opened.", dir)
	}
	defer f.Close()
	_ = f.Sync()
	return nil
}
