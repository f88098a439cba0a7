package app

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"posthaste/internal/store/lsm"
)

// TestBackupOfALongDirectory asks a server whose directory has a path too long for a
// socket.
func TestBackupOfALongDirectory(t *testing.T) {
	data := filepath.Join(t.TempDir(), strings.Repeat("long", 50))
	s, err := lsm.Open(data, lsm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	c, err := openControl(data, s)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close(t.Context())
	if _, err := lsm.Open(data, lsm.Options{}); !errors.Is(err, lsm.ErrLocked) {
		t.Fatalf("the directory is not in use: %v", err)
	}
	to := filepath.Join(t.TempDir(), "copy")
	if err := Backup(t.Context(), data, to); err != nil {
		t.Fatal(err)
	}
	if report, err := Check(to); err != nil || len(report.Problems) > 0 {
		t.Errorf("Check of the backup: %v, %q", err, report.Problems)
	}
	if err := Backup(t.Context(), data, to); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a second backup to the same place: %v", err)
	}
}

// TestControlAfterADeath opens the socket beside one that nobody listens to any more.
func TestControlAfterADeath(t *testing.T) {
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, controlFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := lsm.Open(data, lsm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	c, err := openControl(data, s)
	if err != nil {
		t.Fatal(err)
	}
	c.close(t.Context())
	if err := Backup(t.Context(), data, filepath.Join(t.TempDir(), "copy")); !errors.Is(err, lsm.ErrLocked) {
		t.Errorf("Backup of a directory that somebody has open without a socket = %v, want ErrLocked", err)
	}
}

// A backup in the directory it is of would be lost with it, and be in the next one.
func TestBackupIntoItsOwnDirectory(t *testing.T) {
	root := t.TempDir()
	data := filepath.Join(root, "data")
	s, err := lsm.Open(data, lsm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(root, "link")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{
		"itself":             data,
		"within":             filepath.Join(data, "copy"),
		"far within":         filepath.Join(data, "a", "b", "copy"),
		"within, by a link":  filepath.Join(link, "copy"),
		"beside and back in": filepath.Join(root, "none", "..", "data", "copy"),
	} {
		t.Run(name, func(t *testing.T) {
			if err := Backup(t.Context(), data, to); err == nil || !strings.Contains(err.Error(), "is inside the data directory") {
				t.Errorf("Backup to %s = %v", to, err)
			}
		})
	}
	if err := Backup(t.Context(), link, filepath.Join(root, "data-copy")); err != nil {
		t.Errorf("Backup beside the directory: %v", err)
	}
}

// TestServerWithoutControl starts where no socket can be made.
func TestServerWithoutControl(t *testing.T) {
	data := t.TempDir()
	err := errors.Join(os.MkdirAll(filepath.Join(data, controlFile, "in the way"), 0o700), os.Chmod(data, privateDir))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	server, err := New(t.Context(), Options{
		Listeners: []net.Listener{listen(t)},
		Data:      data,
		Tokens:    []string{token},
		Log:       slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "level=WARN msg=control.unavailable") {
		t.Errorf("the log does not tell it:\n%s", log.String())
	}
}
