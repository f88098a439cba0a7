package pgtest

import (
	"errors"
	"io"
	"os/exec"
	"syscall"
)

// undertaker is a process that outlives the tests, however they end: when nobody holds
// the other end of its input any more, it stops the server and removes the cluster.
type undertaker struct {
	process *exec.Cmd
	alive   io.Closer // the other end
}

// funeral reads until the tests are gone. A server that does not run, or whose
// directory was removed, is none to be stopped.
const funeral = `cat >/dev/null; "$0" -D "$1/data" -w -m immediate stop >/dev/null 2>&1; rm -rf "$1"`

// watch begins to watch a cluster in a directory, as somebody. The undertaker is in a process group of its own, so
// that a signal for the tests does not reach it.
func (u *undertaker) watch(directory string, as *syscall.Credential) error {
	program, err := find("pg_ctl")
	if err != nil {
		return err
	}
	process := exec.Command("sh", "-c", funeral, program, directory)
	process.SysProcAttr = &syscall.SysProcAttr{Credential: as, Setpgid: true}
	alive, err := process.StdinPipe()
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return errors.Join(err, alive.Close())
	}
	u.process, u.alive = process, alive
	return nil
}

// end lets the undertaker do its work, if there is one, and waits for it. What it
// cannot remove, as it is not its own, the caller can.
func (u *undertaker) end() error {
	if u.process == nil {
		return nil
	}
	err := u.alive.Close()
	_ = u.process.Wait() // says only whether all was its own
	return err
}
