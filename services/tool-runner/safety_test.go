package toolrunner_test

import (
	"testing"

	"kaged.dev/pkg/shellguard"
	toolrunner "kaged.dev/services/tool-runner"
)

// A new installation requests approval for effects that others would lose or that cannot be undone, in every spelling,
// and not for similar everyday commands (T-SAFE-02).
func TestDefaultRules(t *testing.T) {
	t.Parallel()
	c := toolrunner.DefaultConfig()
	guard, err := shellguard.New(
		shellguard.Rules{
			Blocked:     c.BlockedCommands,
			Destructive: c.DestructiveCommands,
			System:      c.SystemPaths,
			Home:        "/home/ada",
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	for want, texts := range map[shellguard.Class][]string{
		shellguard.Blocked: {"rm x", "sudo -n ls", "chmod a+r+w+x f", "flock --wait 5 f dd if=a of=b"},
		shellguard.Destructive: {
			"git push --force", "git push -uf origin x", "git push --force-with-lease=feature/x origin",
			"git push -d origin main", "git push origin --del main", "git push origin +main",
			"git push origin +HEAD:feature/x", "git push origin :main", "git push origin :refs/heads/feature/x",
			"git push --mirror", "git push --prune origin", "git branch -D x",
			"git branch -df x", "git branch --delete --force x", "git reset --hard", "git -C sub clean -fdx",
			"git config alias.x 'push -f'",
		},
		shellguard.Fine: {
			"git push", "git push -u origin feature/x", "git push origin HEAD:feature/x", "git push origin main:main --tags",
			"git branch -d merged", "git branch --list", "git reset --soft HEAD~1",
			"git checkout -b x", "git stash pop", "npm run build", "go test ./...", "make -j2", "docker compose up -d",
			"kubectl get pods",
		},
	} {
		for _, text := range texts {
			if v := guard.Text(text); v.Class != want {
				t.Errorf("%q: %v, want %v: %v", text, v.Class, want, v.Findings)
			}
		}
	}
}
