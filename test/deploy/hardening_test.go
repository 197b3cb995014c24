package deploy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/host"
	dappool "kaged.dev/services/dap-pool"
	"kaged.dev/services/gateway"
	lsppool "kaged.dev/services/lsp-pool"
	sandboxsupervisor "kaged.dev/services/sandbox-supervisor"
)

// Every container has a read-only root, no capability, no way to get new privileges, and limits on processes, memory
// and logs. Only the container that prepares volumes has the capabilities of root for this task.
func TestEveryContainerIsBounded(t *testing.T) {
	t.Parallel()
	p := load(t)
	for name, s := range p.Services {
		if !s.ReadOnly || s.Privileged || !slices.Equal(s.CapDrop, []string{"ALL"}) ||
			!slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s: read_only %t, privileged %t, cap_drop %v, security_opt %v", name, s.ReadOnly, s.Privileged, s.CapDrop,
				s.SecurityOpt)
		}
		caps := []string(nil)
		if name == "setup" {
			caps = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER"}
		}
		if !slices.Equal(s.CapAdd, caps) {
			t.Errorf("%s has the capabilities %v, want %v", name, s.CapAdd, caps)
		}
		if s.PidsLimit <= 0 || s.MemLimit <= 0 {
			t.Errorf("%s may have %d processes and %d bytes", name, s.PidsLimit, s.MemLimit)
		}
		if s.Logging == nil || s.Logging.Options["max-size"] == "" || s.Logging.Options["max-file"] == "" {
			t.Errorf("the log of %s grows without bound: %+v", name, s.Logging)
		}
		restart := "unless-stopped"
		if name == "setup" {
			restart = "no"
		} else if strings.HasPrefix(s.User, "0") || s.User == "" {
			t.Errorf("%s runs as %q", name, s.User)
		}
		if s.Restart != restart {
			t.Errorf("%s restarts %q, want %q", name, s.Restart, restart)
		}
	}
}

// The workspace's container relaxes Docker's defaults as far as cages need it; no other container relaxes any.
func TestSecurityOptionsOfCages(t *testing.T) {
	t.Parallel()
	p := load(t)
	for name, s := range p.Services {
		want := []string{"no-new-privileges:true"}
		if name == "sandbox-supervisor" {
			want = append(want, "seccomp:deploy/seccomp.json", "systempaths=unconfined", "apparmor=unconfined")
		}
		if !slices.Equal(s.SecurityOpt, want) {
			t.Errorf("%s has %q, want %q", name, s.SecurityOpt, want)
		}
	}
}

// Permanent data is in a volume, other written data is in memory. No two services share their data, except the home
// folder of agents' commands, which both services of the workspace see.
func TestWhatLastsIsInVolumes(t *testing.T) {
	t.Parallel()
	p := load(t)
	for name, want := range map[string]map[string]string{
		"postgres":           {"/var/lib/postgresql/data": "postgres"},
		"nats":               {"/data": "nats"},
		"session-manager":    {"/var/lib/kaged": "session-manager"},
		"tool-runner":        {"/var/lib/kaged": "tool-runner", "/home/kaged": "home"},
		"sandbox-supervisor": {"/var/lib/kaged": "sandbox-supervisor", "/home/kaged": "home"},
	} {
		for target, volume := range want {
			m := mount(service(t, p, name), target)
			if m == nil || m.Type != "volume" || m.Source != volume || m.ReadOnly {
				t.Errorf("%s has %+v at %s, want the volume %s", name, m, target, volume)
			}
			if v, there := p.Volumes[volume]; !there || len(v.DriverOpts) > 0 {
				t.Errorf("the volume %s is %+v", volume, v)
			}
			if m := mount(service(t, p, "setup"), "/data/"+volume); m == nil && volume != "postgres" {
				t.Errorf("setup does not give %s to the user of the services", volume)
			}
		}
	}
	for _, name := range services {
		s := service(t, p, name)
		for _, dir := range []string{"/tmp", "/var/lib/kaged"} {
			there := mount(s, dir) != nil || slices.ContainsFunc(s.Tmpfs, func(m string) bool {
				return strings.HasPrefix(m, dir+":mode=")
			})
			if !there {
				t.Errorf("%s cannot write to %s", name, dir)
			}
		}
	}
	for _, name := range workspace {
		if s := service(t, p, name); !slices.ContainsFunc(s.Tmpfs, func(m string) bool {
			return strings.HasPrefix(m, "/tmp:") && strings.Contains(m, "exec")
		}) {
			t.Errorf("programs that tests build in /tmp cannot run in %s: %v", name, s.Tmpfs)
		}
	}
}

// Docker waits longer than the services drain.
func TestGraceIsAboveTheDrain(t *testing.T) {
	t.Parallel()
	p := load(t)
	const drain = host.DefaultDrainGrace + host.DefaultStopTimeout
	supervisor := sandboxsupervisor.DefaultConfig()
	for name, least := range map[string]time.Duration{
		"gateway":            drain + gateway.DefaultConfig().ShutdownTimeout.D(),
		"session-manager":    drain,
		"harness":            drain,
		"issue":              drain,
		"tool-runner":        drain,
		"lsp-pool":           drain + lsppool.DefaultConfig().StopGrace.D(),
		"dap-pool":           drain + dappool.DefaultConfig().StopGrace.D(),
		"sandbox-supervisor": drain + supervisor.CancelGrace.D() + supervisor.KillTimeout.D(),
		"postgres":           drain,
		"nats":               drain,
	} {
		grace := service(t, p, name).StopGracePeriod
		if grace == nil || time.Duration(*grace) < least+5*time.Second {
			t.Errorf("%s is killed after %v, want 5 s more than the %s it may take", name, grace, least)
		}
	}
	for _, path := range []string{"deploy/config/local.toml", "deploy/workspace/local.toml"} {
		f, err := config.Load(root + "/" + path)
		if err != nil {
			t.Fatal(err)
		}
		if f.Host != (config.Host{}) {
			t.Errorf("%s changes how long services drain: %+v", path, f.Host)
		}
	}
}
