package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-dap"
)

// delve is a Delve that is used over its port, without kaged, and a program that it has stopped.
type delve struct {
	cmd    *exec.Cmd
	conn   net.Conn
	in     *bufio.Reader
	seq    int
	main   string
	thread int
	frame  int
}

// startDelve starts Delve on the program and returns when it has stopped at main.
func startDelve(ctx context.Context, d *debugging) (_ *delve, err error) {
	b := &delve{
		main: filepath.Join(d.dir, "main.go"),
		cmd:  exec.CommandContext(ctx, "dlv", "dap", "--listen=127.0.0.1:0"),
	}
	b.cmd.Dir, b.cmd.Env, b.cmd.Stderr = d.dir, environ(d.home), os.Stderr
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			b.stop()
		}
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, err
	}
	_, address, _ := strings.Cut(strings.TrimSpace(line), "listening at: ")
	if b.conn, err = net.Dial("tcp", address); err != nil {
		return nil, err
	}
	b.in = bufio.NewReader(b.conn)
	return b, b.launch(d)
}

func (b *delve) launch(d *debugging) error {
	const form = `{"request":"launch","mode":"exec","program":%q,"cwd":%q,"stopOnEntry":false}`
	arguments := fmt.Sprintf(form, d.program(), d.dir)
	_, err := b.call("initialize", &dap.InitializeRequest{Arguments: dap.InitializeRequestArguments{
		ClientID: "bench", AdapterID: "go", PathFormat: "path", LinesStartAt1: true, ColumnsStartAt1: true,
		SupportsVariableType: true,
	}})
	if err != nil {
		return err
	}
	if err := b.send("launch", &dap.LaunchRequest{Arguments: []byte(arguments)}); err != nil {
		return err
	}
	if err := b.until(func(m dap.Message) bool { _, ok := m.(*dap.InitializedEvent); return ok }); err != nil {
		return err
	}
	if err := b.functions(dap.FunctionBreakpoint{Name: "main.main"}); err != nil {
		return err
	}
	if err := b.send("configurationDone", &dap.ConfigurationDoneRequest{}); err != nil {
		return err
	}
	return errors.Join(b.stopped(), b.functions())
}

func (b *delve) functions(list ...dap.FunctionBreakpoint) error {
	_, err := b.call("setFunctionBreakpoints", &dap.SetFunctionBreakpointsRequest{
		Arguments: dap.SetFunctionBreakpointsArguments{Breakpoints: append([]dap.FunctionBreakpoint{}, list...)},
	})
	return err
}

// breakpoint sets the breakpoint in the loop.
func (b *delve) breakpoint() error {
	_, err := b.call("setBreakpoints", &dap.SetBreakpointsRequest{Arguments: dap.SetBreakpointsArguments{
		Source: dap.Source{Path: b.main}, Breakpoints: []dap.SourceBreakpoint{{Line: loopLine}},
	}})
	return err
}

func (b *delve) goOn() error {
	arguments := dap.ContinueArguments{ThreadId: b.thread}
	return errors.Join(b.send("continue", &dap.ContinueRequest{Arguments: arguments}), b.stopped())
}

func (b *delve) step() error {
	arguments := dap.NextArguments{ThreadId: b.thread}
	return errors.Join(b.send("next", &dap.NextRequest{Arguments: arguments}), b.stopped())
}

func (b *delve) evaluate() error {
	_, err := b.call("evaluate", &dap.EvaluateRequest{Arguments: dap.EvaluateArguments{
		Expression: "total + 1", FrameId: b.frame, Context: "watch",
	}})
	return err
}

func (b *delve) locals() error {
	m, err := b.call("scopes", &dap.ScopesRequest{Arguments: dap.ScopesArguments{FrameId: b.frame}})
	if err != nil {
		return err
	}
	scopes, ok := m.(*dap.ScopesResponse)
	if !ok || len(scopes.Body.Scopes) == 0 {
		return fmt.Errorf("dlv answered scopes by %v", m)
	}
	m, err = b.call("variables", &dap.VariablesRequest{Arguments: dap.VariablesArguments{
		VariablesReference: scopes.Body.Scopes[0].VariablesReference,
	}})
	if err != nil {
		return err
	}
	if list, ok := m.(*dap.VariablesResponse); !ok || len(list.Body.Variables) <= debugLocals {
		return fmt.Errorf("dlv answered variables by %v", m)
	}
	return nil
}

// stopped waits for the next stop and requests its position, which every answer of debug has.
func (b *delve) stopped() error {
	err := b.until(func(m dap.Message) bool {
		e, ok := m.(*dap.StoppedEvent)
		if ok {
			b.thread = e.Body.ThreadId
		}
		return ok
	})
	if err != nil {
		return err
	}
	m, err := b.call("stackTrace", &dap.StackTraceRequest{
		Arguments: dap.StackTraceArguments{ThreadId: b.thread, Levels: 1},
	})
	if err != nil {
		return err
	}
	stack, ok := m.(*dap.StackTraceResponse)
	if !ok || len(stack.Body.StackFrames) == 0 {
		return fmt.Errorf("dlv answered stackTrace by %v", m)
	}
	b.frame = stack.Body.StackFrames[0].Id
	return nil
}

// send sends a request.
func (b *delve) send(command string, m dap.RequestMessage) error {
	b.seq++
	r := m.GetRequest()
	r.Seq, r.Type, r.Command = b.seq, "request", command
	return dap.WriteProtocolMessage(b.conn, m)
}

// call makes a request and returns its answer.
func (b *delve) call(command string, m dap.RequestMessage) (dap.Message, error) {
	if err := b.send(command, m); err != nil {
		return nil, err
	}
	var answer dap.ResponseMessage
	err := b.until(func(m dap.Message) bool {
		r, ok := m.(dap.ResponseMessage)
		if ok && r.GetResponse().RequestSeq == b.seq {
			answer = r
		}
		return answer != nil
	})
	if err == nil && !answer.GetResponse().Success {
		err = fmt.Errorf("dlv refused %s: %s", command, answer.GetResponse().Message)
	}
	return answer, err
}

// until reads messages until a wanted one.
func (b *delve) until(wanted func(dap.Message) bool) error {
	for {
		m, err := dap.ReadProtocolMessage(b.in)
		if err != nil {
			return err
		}
		if wanted(m) {
			return nil
		}
	}
}

// stop ends Delve and the program.
func (b *delve) stop() {
	if b.conn != nil {
		_ = b.send("disconnect", &dap.DisconnectRequest{Arguments: &dap.DisconnectArguments{TerminateDebuggee: true}})
		_ = b.until(func(m dap.Message) bool { _, ok := m.(*dap.TerminatedEvent); return ok })
		_ = b.conn.Close()
	}
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}
