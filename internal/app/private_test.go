package app

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"posthaste/internal/store/lsm"
)

// TestMakePrivate makes directories private that others may enter. The scripts of
// internal/cli look at what the program creates.
func TestMakePrivate(t *testing.T) {
	const open fs.FileMode = 0o755
	for name, c := range map[string]struct {
		files   map[string]fs.FileMode
		mode    fs.FileMode
		refused string
		want    map[string]fs.FileMode
	}{
		"empty":                  {mode: open, want: map[string]fs.FileMode{".": 0o700}},
		"a new file system":      {files: map[string]fs.FileMode{"lost+found": 0o600}, mode: open, want: map[string]fs.FileMode{".": 0o700}},
		"has lost its database":  {files: map[string]fs.FileMode{lsm.GuardFile: 0o644}, mode: open, want: map[string]fs.FileMode{".": 0o700, lsm.GuardFile: 0o600}},
		"private with open file": {files: map[string]fs.FileMode{"000001.log": 0o666}, mode: 0o700, want: map[string]fs.FileMode{".": 0o700, "000001.log": 0o600}},
		"private and stricter":   {files: map[string]fs.FileMode{"read-only": 0o400}, mode: 0o500, want: map[string]fs.FileMode{".": 0o500, "read-only": 0o400}},
		"somebody else's": {
			files: map[string]fs.FileMode{"diary": 0o644}, mode: open,
			refused: "contains other files and is accessible", want: map[string]fs.FileMode{".": open, "diary": 0o644},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for file, mode := range c.files {
				if err := os.WriteFile(filepath.Join(dir, file), nil, mode); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(filepath.Join(dir, file), mode); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(dir, c.mode); err != nil {
				t.Fatal(err)
			}
			err := makePrivate(dir, slog.New(slog.DiscardHandler))
			if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("makePrivate = %v, want %q", err, c.refused)
			}
			for file, want := range c.want {
				if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode().Perm() != want {
					t.Errorf("%s: %v, %v, want %v", file, info.Mode().Perm(), err, want)
				}
			}
		})
	}
}

// TestMakePrivateFollowsNoLink leaves alone what a link in the directory leads to.
func TestMakePrivateFollowsNoLink(t *testing.T) {
	root := t.TempDir()
	outside, dir := filepath.Join(root, "outside"), filepath.Join(root, "data")
	if err := os.WriteFile(outside, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	if err := makePrivate(dir, slog.New(slog.NewTextHandler(&log, nil))); err != nil || log.Len() > 0 {
		t.Errorf("makePrivate = %v, log %q", err, log.String())
	}
	if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("what the link leads to is %v, %v", info.Mode(), err)
	}
}
