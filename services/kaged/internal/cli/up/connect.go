package up

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/grpc"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/dsl"
	"kaged.dev/services/kaged/internal/cli/kit"
	"kaged.dev/services/kaged/internal/daemon"
)

// Target is the subject of a command: a project's folder or a session, and the URL of its daemon, empty for the one on
// the data directory.
type Target struct{ Project, Session, URL string }

// Connect returns a signed-in client and a function that closes its connection and stops the daemon if one was started
// for it.
func Connect(ctx context.Context, a kit.App, p *kit.Places, f Target) (*client.Client, func() error, error) {
	if f.URL != "" {
		c := client.New(f.URL).WithToken(a.Getenv(kit.TokenVariable))
		return c, func() error { c.Close(); return nil }, c.Bootstrap(ctx)
	}
	var c *client.Client
	signIn := func(conn grpc.ClientConnInterface) (err error) {
		c, err = client.SignInWith(ctx, conn)
		return err
	}
	release, err := daemon.Share(ctx, p.DataDir.String())
	if err != nil {
		return nil, nil, err
	}
	done := func() error { release(); return nil }
	running, err := a.Gateway(ctx, p, signIn)
	if running {
		a.WarnRawKeys(p.Config.String()) // a private daemon warns itself
	}
	for err == nil && !running {
		// A daemon would refuse the folder too, but only after its start.
		if err = projectHere(f); err != nil {
			break
		}
		fmt.Fprintf(a.Stderr, "kaged: no daemon is running for %s; starting a temporary one\n", p.DataDir)
		var stop func() error
		var quicker *daemon.InUseError
		if stop, err = startPrivate(ctx, a, p); err == nil {
			release()
			done = func() error { return stopPrivate(ctx, a, p, stop) }
		} else if !errors.As(err, &quicker) {
			break
		}
		running, err = a.Gateway(ctx, p, signIn)
	}
	if err != nil {
		return nil, nil, errors.Join(err, done())
	}
	return c, func() error { c.Close(); return done() }, nil
}

// projectHere fails if the folder is no project.
func projectHere(f Target) error {
	if f.Session != "" {
		return nil
	}
	if info, err := os.Stat(f.Project); err != nil || !info.IsDir() {
		return kit.NoFolder(f.Project)
	}
	if _, err := os.Stat(filepath.Join(f.Project, dsl.ProjectFile)); errors.Is(err, fs.ErrNotExist) {
		return kit.NoProject(f.Project)
	}
	return nil
}
