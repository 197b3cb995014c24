package pgtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"kaged.dev/pkg/postgres/embedded"
)

// serveVariable is the environment variable that makes a test binary the server of another one.
const serveVariable = "KAGED_PGTEST_SERVE"

// slots is the maximum number of test binaries with a server at the same time.
const slots = 64

// slotLock is the lock file of a slot in use.
const slotLock = "slot.lock"

const startLimit = time.Minute

// answer is the child's one message on its standard output.
type answer struct {
	OwnerURL, AppURL string
	Error            string
}

func init() {
	if os.Getenv(serveVariable) != "" {
		os.Exit(serve())
	}
}

// serve runs a server until standard input ends.
func serve() int {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	server, err := startInSlot(ctx)
	if err != nil {
		_ = json.NewEncoder(os.Stdout).Encode(answer{Error: err.Error()})
		return 1
	}
	_ = json.NewEncoder(os.Stdout).Encode(answer{OwnerURL: server.OwnerURL(), AppURL: server.URL()})
	_ = os.Stdout.Close()
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	select {
	case <-ended:
	case <-server.Done():
	}
	stop, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = server.Stop(stop)
	return 0
}

// startInSlot starts a server on the first cluster that no other process uses.
func startInSlot(ctx context.Context) (*embedded.Server, error) {
	base, err := cacheFolder()
	if err != nil {
		return nil, err
	}
	for n := range slots {
		dir := filepath.Join(base, fmt.Sprintf("slot-%02d", n))
		free, err := lockSlot(dir)
		if err != nil {
			return nil, err
		}
		if !free {
			continue
		}
		return startOrRemake(ctx, dir)
	}
	return nil, errors.New("every slot for a test database is in use")
}

// startOrRemake starts a server on a slot's cluster. An unusable cluster, after a power cut or a change of PostgreSQL's
// version, is made again, because its data is worthless.
func startOrRemake(ctx context.Context, dir string) (*embedded.Server, error) {
	opts := embedded.Options{DataDir: dir, NoSync: true}
	server, err := startTidy(ctx, opts)
	if err == nil {
		return server, nil
	}
	if err2 := os.RemoveAll(filepath.Join(dir, "postgres")); err2 != nil {
		return nil, errors.Join(err, err2)
	}
	return startTidy(ctx, opts)
}

func startTidy(ctx context.Context, opts embedded.Options) (*embedded.Server, error) {
	server, err := embedded.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := tidy(ctx, server.OwnerURL()); err != nil {
		return nil, errors.Join(err, server.Stop(ctx))
	}
	return server, nil
}

// cacheFolder is the folder of the clusters: in memory where there is room, because every test makes and drops a
// database of a thousand files, which costs a disk's file system more than the test's own statements; else in the
// user's cache folder, or, if that is not writable, in a private folder for temporary files.
func cacheFolder() (string, error) {
	private := fmt.Sprintf("kaged-pgtest-%d", os.Getuid())
	if roomy(memoryFolder) {
		if dir, err := privateFolder(filepath.Join(memoryFolder, private)); err == nil {
			return dir, nil
		}
	}
	if base, err := os.UserCacheDir(); err == nil {
		dir := filepath.Join(base, "kaged-pgtest")
		if os.MkdirAll(dir, 0o700) == nil {
			return dir, nil
		}
	}
	return privateFolder(filepath.Join(os.TempDir(), private))
}

// privateFolder makes a folder of this user's in a folder of all users.
func privateFolder(dir string) (string, error) {
	err := os.Mkdir(dir, 0o700)
	if os.IsExist(err) {
		// Changing the mode of another user's folder fails.
		err = os.Chmod(dir, 0o700)
	}
	return dir, err
}

// shared is the server of this test binary.
var shared = sync.OnceValues(start)

// start starts this binary as a server. Its standard input is a pipe that the kernel closes when this process ends; the
// server ends by that alone, and no code waits for it.
func start() (answer, error) {
	self, err := os.Executable()
	if err != nil {
		return answer{}, err
	}
	stdin, hold, err := os.Pipe()
	if err != nil {
		return answer{}, err
	}
	defer stdin.Close()
	told, stdout, err := os.Pipe()
	if err != nil {
		return answer{}, err
	}
	defer told.Close()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), serveVariable+"=1")
	cmd.Stdin, cmd.Stdout = stdin, stdout
	err = cmd.Start()
	_ = stdout.Close()
	if err != nil {
		return answer{}, err
	}
	lifeline = hold
	var got answer
	if err := json.NewDecoder(told).Decode(&got); err != nil {
		return answer{}, fmt.Errorf("the test database's process ended: %w", err)
	}
	if got.Error != "" {
		return answer{}, errors.New(got.Error)
	}
	return got, nil
}

// lifeline is the pipe that keeps the server alive. The variable prevents the garbage collector from closing it.
//
//lint:ignore U1000 it is there to be held, not to be read
var lifeline *os.File
