package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/rpc"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// runner is a tool-runner in its own process, called as the harness calls it: over gRPC on a unix socket.
type runner struct {
	toolrunnerv1.ToolRunnerServiceClient
	conn   *grpc.ClientConn
	cmd    *exec.Cmd
	tools  []string
	nextID atomic.Int64
}

// startRunner starts the tool-runner of the measured kaged and returns when it serves.
func (w *world) startRunner(ctx context.Context) (_ *runner, err error) {
	data := filepath.Join(w.dir, "runner")
	r := &runner{cmd: exec.Command(filepath.Join(filepath.Dir(w.kaged), "tool-runner"), "--data-dir", data)}
	r.cmd.Env, r.cmd.Stderr = environ(w.dir), os.Stderr
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.stop()
		}
	}()
	r.conn, err = grpc.NewClient("unix:"+host.SocketPath(data, "tool-runner"), rpc.DialOptions()...)
	if err != nil {
		return nil, err
	}
	r.ToolRunnerServiceClient = toolrunnerv1.NewToolRunnerServiceClient(r.conn)
	bounded, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	list, err := r.ListTools(bounded, &toolrunnerv1.ListToolsRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return nil, err
	}
	for _, t := range list.GetTools() {
		r.tools = append(r.tools, t.GetName())
	}
	return r, nil
}

func (r *runner) stop() {
	if r.conn != nil {
		r.conn.Close()
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	_ = r.cmd.Wait()
}

// call runs a tool on a project and returns the result in the form for the model.
func (r *runner) call(ctx context.Context, session, project, tool string, params any) (string, error) {
	return r.as(ctx, session, project, tool, params, uncaged)
}

// uncaged is a caller without a cage.
func uncaged(*toolrunnerv1.ToolContext) {}

// as is call for another caller, which change describes.
func (r *runner) as(
	ctx context.Context, session, project, tool string, params any, change func(*toolrunnerv1.ToolContext),
) (string, error) {
	return r.run(ctx, strconv.FormatInt(r.nextID.Add(1), 10), session, project, tool, params, change)
}

// knock sends the message of call in a form that is refused before any look-up, to measure the cost of the messages
// alone.
func (r *runner) knock(ctx context.Context, session, project, tool string, params any) error {
	if _, err := r.run(ctx, "", session, project, tool, params, uncaged); !errors.Is(err, fault.BadRequest) {
		return fmt.Errorf("a call without an id: %v", err)
	}
	return nil
}

func (r *runner) run(
	ctx context.Context, id, session, project, tool string, params any, change func(*toolrunnerv1.ToolContext),
) (string, error) {
	input, err := json.Marshal(params)
	if err != nil {
		return "", err
	}
	caller := &toolrunnerv1.ToolContext{
		SessionId: session, RunId: "bench", RequestId: "bench", Caller: "primary", ProjectId: "bench",
		ProjectRoot: project, Tools: r.tools,
	}
	change(caller)
	request := &toolrunnerv1.RunToolRequest{CallId: id, Tool: tool, Input: string(input), Context: caller}
	stream, err := r.RunTool(ctx, request)
	if err != nil {
		return "", err
	}
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return "", errors.New("the call ended without a result")
		}
		if err != nil {
			return "", err
		}
		if result := event.GetResult(); result != nil {
			// The end follows at once. The stream is read to its end, because otherwise a goroutine would remain.
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				return "", fmt.Errorf("after the result came no end but %v", err)
			}
			if f := result.GetError(); f != nil {
				return "", fmt.Errorf("%s: %s", tool, f.GetMessage())
			}
			return result.GetContent(), nil
		}
	}
}

// ping is a round trip without work for the tool-runner.
func (r *runner) ping(ctx context.Context) error {
	_, err := grpc_health_v1.NewHealthClient(r.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	return err
}

// cpu returns the CPU time of the process in nanoseconds. The number of a process selects its clock.
func (r *runner) cpu() (time.Duration, error) {
	const schedClock = 2 // CPUCLOCK_SCHED, the sum over all threads
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^r.cmd.Process.Pid<<3|schedClock), &ts); err != nil {
		return 0, err
	}
	return time.Duration(ts.Nano()), nil
}

func (r *runner) memory(key string) (int64, error) { return memoryOf(r.cmd.Process.Pid, key) }
func (r *runner) resetPeak() error                 { return resetPeakOf(r.cmd.Process.Pid) }
