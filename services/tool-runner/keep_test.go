package toolrunner_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/config"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
	toolrunner "kaged.dev/services/tool-runner"
)

// openSandbox opens each requested cage at once. ended receives the id of each cage whose last hold has ended.
type openSandbox struct {
	*smallSandbox
	opened, ended chan string
}

func (s *openSandbox) HoldCage(
	req *sandboxsupervisorv1.HoldCageRequest, stream grpc.ServerStreamingServer[sandboxsupervisorv1.HoldCageEvent],
) error {
	s.opened <- req.GetCageId()
	err := stream.Send(&sandboxsupervisorv1.HoldCageEvent{Event: &sandboxsupervisorv1.HoldCageEvent_Opened{
		Opened: &sandboxsupervisorv1.Cage{CageId: req.GetCageId()},
	}})
	if err != nil {
		return err
	}
	<-stream.Context().Done()
	s.ended <- req.GetCageId()
	return nil
}

// The cage of a run that a harness hands over is held until the next harness holds it, which joins the same cage.
// Without a next harness it ends after keep_runs.
func TestACageIsKept(t *testing.T) {
	t.Parallel()
	box := &openSandbox{newSandbox(), make(chan string, 4), make(chan string, 4)}
	below := dial(t, func(r grpc.ServiceRegistrar) { sandboxsupervisorv1.RegisterSandboxServiceServer(r, box) })
	for name, keep := range map[string]time.Duration{"held again": time.Hour, "not held again": 10 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			cfg := toolrunner.DefaultConfig()
			cfg.KeepRuns = config.Duration(keep)
			c, stop := startOn(t, cfg, toolrunner.Deps{Sandbox: sandboxsupervisorv1.NewSandboxServiceClient(below)})
			t.Cleanup(stop)
			leaveRun, _ := c.holdRun("r1")
			leaveCage := c.holdCage("first")
			if id := <-box.opened; id != "first" {
				t.Fatalf("got cage %s", id)
			}
			if _, err := c.KeepRun(t.Context(), &toolrunnerv1.KeepRunRequest{SessionId: "s1", RunId: "r1"}); err != nil {
				t.Fatal(err)
			}
			leaveCage()
			leaveRun()
			if keep < time.Hour {
				if id := <-box.ended; id != "first" {
					t.Errorf("cage %s ended", id)
				}
				return
			}
			leaveRun, _ = c.holdRun("r1")
			leaveCage = c.holdCage("second")
			if id := <-box.opened; id != "first" {
				t.Errorf("the next harness is in cage %s, want the kept one", id)
			}
			<-box.ended // the first hold, after the second has begun
			leaveCage()
			leaveRun()
			<-box.ended
		})
	}
}

// holdCage holds a cage until leave is called. It returns when the cage is open.
func (c *client) holdCage(id string) (leave func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	if event, err := c.hold(ctx, id)(); err != nil || event.GetOpened() == nil {
		c.t.Fatalf("got %v, %v, want an open cage", event, err)
	}
	return cancel
}
