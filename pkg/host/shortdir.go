package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// shortDir is the path of a short folder that belongs to one data directory.
func shortDir(dataDir string) string {
	sum := sha256.Sum256([]byte(dataDir))
	base := os.Getenv("XDG_RUNTIME_DIR")
	if base == "" || len(base) > 40 {
		base = os.TempDir()
	}
	return filepath.Join(base, fmt.Sprintf("kaged-%d-%s", os.Getuid(), hex.EncodeToString(sum[:6])))
}

// ownShortDir checks, if dir is the short folder of the data directory, that only the user can access it. Its name is
// predictable, and any user may create folders there, so another user may have created it. A missing folder is no
// danger.
func ownShortDir(dir, dataDir string) error {
	if dataDir == "" || dir != shortDir(dataDir) {
		return nil
	}
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !ownedByUser(info) {
		return fmt.Errorf("the folder %s is not this user's alone; remove it or set XDG_RUNTIME_DIR", dir)
	}
	return nil
}
