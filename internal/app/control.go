package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
	"posthaste/internal/store/postgres"
	"posthaste/internal/store/postgres/schema"
)

// controlFile is the name of a Unix socket in the data directory. Anyone who may use the
// directory can ask the server that has it open for what no other process can do meanwhile.
// It is not reachable over the network.
const controlFile = "control"

// control listens to the socket of one server.
type control struct {
	server *http.Server
	ended  chan struct{} // closed when nothing is served any more
}

// openControl opens the socket. The store has the directory to itself, so a socket that
// is there is one of a process that died.
func openControl(data string, s *lsm.Store) (*control, error) {
	if err := os.Remove(filepath.Join(data, controlFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove a stale control socket: %w", err)
	}
	var listener net.Listener
	err := atSocket(data, func(path string) (err error) {
		listener, err = net.Listen("unix", path)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	c := &control{server: &http.Server{Handler: controlHandler(s), ReadHeaderTimeout: headerTime}, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		_ = c.server.Serve(listener) // it ends when it is closed
	}()
	return c, nil
}

// startControl opens the socket of a server on a directory. The server can do without:
// not every file system has sockets.
func (a *App) startControl(options Options, s store.Store) {
	local, ok := backendOf(s).(*lsm.Store)
	if !ok {
		return
	}
	c, err := openControl(options.Data, local)
	if err != nil {
		options.Log.Warn("control.unavailable", "error", err, "consequence", "posthaste backup works only while the server is stopped")
		return
	}
	a.control = c
}

// close waits for what was asked for, until ctx ends.
func (c *control) close(ctx context.Context) {
	if err := c.server.Shutdown(ctx); err != nil {
		_ = c.server.Close()
	}
	<-c.ended
}

// atSocket calls use with a path of the socket that is short enough for one: a socket's
// path has a hundred bytes at most, and a directory's often more.
func atSocket(data string, use func(path string) error) error {
	const longest = 100
	if path := filepath.Join(data, controlFile); len(path) <= longest {
		return use(path)
	}
	directory, err := os.Open(data)
	if err != nil {
		return err
	}
	defer func() { _ = directory.Close() }()
	return use(fmt.Sprintf("/proc/self/fd/%d/%s", directory.Fd(), controlFile))
}

func controlHandler(s *lsm.Store) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /backup", func(w http.ResponseWriter, r *http.Request) {
		if err := s.Backup(r.Context(), r.URL.Query().Get("to")); err != nil {
			answerError(w, http.StatusInternalServerError, err.Error())
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// Backup writes a copy of a data directory to another directory, which must not be there
// or be empty. If a server has the directory open it makes the copy, and goes on
// meanwhile.
func Backup(ctx context.Context, data, to string) error {
	if _, err := os.Stat(data); err != nil {
		return err
	}
	to, err := filepath.Abs(to) // the server may be at home elsewhere
	if err == nil {
		err = checkOutside(data, to)
	}
	if err != nil {
		return err
	}
	err = askServer(ctx, data, "/backup?to="+url.QueryEscape(to))
	if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	if err := holdsStore(data); err != nil { // nobody is there
		return err
	}
	s, err := openDirectory(Options{Data: data, Log: slog.Default()}, nil)
	if err != nil {
		return err
	}
	return errors.Join(s.Backup(ctx, to), s.Close())
}

// checkOutside returns an error if a path is in a directory, whatever links lead there.
func checkOutside(directory, path string) error {
	root, err := filepath.EvalSymlinks(directory)
	if err == nil {
		root, err = filepath.Abs(root)
	}
	if err != nil {
		return err
	}
	for at := path; ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		if errors.Is(err, os.ErrNotExist) {
			continue // up to what is there
		}
		if err != nil {
			return err
		}
		if relative, err := filepath.Rel(root, real); err == nil && filepath.IsLocal(relative) {
			return fmt.Errorf("%s is inside the data directory %s: give a directory outside of it", path, directory)
		}
		return nil
	}
}

// holdsStore returns an error unless there is a store in a directory: to open it would
// make one.
func holdsStore(data string) error {
	exists, err := lsm.Exists(data)
	if err == nil && !exists {
		err = fmt.Errorf("%s is not a data directory: it contains no database", data)
	}
	return err
}

// askServer posts to the control socket of a directory.
func askServer(ctx context.Context, data, target string) error {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (c net.Conn, err error) {
			err = atSocket(data, func(path string) (err error) {
				c, err = (&net.Dialer{}).DialContext(ctx, "unix", path)
				return err
			})
			return c, err
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://control"+target, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask the server of %s: %w", data, err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNoContent {
		return nil
	}
	return fmt.Errorf("the server of %s: %s", data, sentenceOf(response.Body))
}

// sentenceOf returns what an error of ours says.
func sentenceOf(body io.Reader) string {
	const longest = 64 << 10
	text, err := io.ReadAll(io.LimitReader(body, longest))
	if err != nil {
		return err.Error()
	}
	var answer struct{ Error string }
	if json.Unmarshal(text, &answer) != nil {
		return strings.TrimSpace(string(text))
	}
	return answer.Error
}

// Report is what a check of a directory has looked at and found, DatabaseReport that of a
// database. Checked is what both report.
type (
	Report         = lsm.Report
	DatabaseReport = postgres.Report
	Checked        = store.Checked
)

// Restore makes a data directory of a backup, after a check of what it copied.
func Restore(from, to string) (Report, error) {
	to, err := filepath.Abs(to) // without a slash at its end
	if err != nil {
		return Report{}, err
	}
	report, err := lsm.Restore(from, to, lsm.Options{})
	if err != nil || len(report.Problems) > 0 {
		return report, err
	}
	return report, makePrivate(to, slog.Default()) // it may have been there before
}

// Check looks at everything in a data directory, or a backup, that no server has open.
func Check(data string) (Report, error) { return lsm.Check(data, lsm.Options{}) }

// CheckDatabase looks at everything in a database, which servers may use meanwhile.
// Of several, which divide the partitions of users, it looks at all.
func CheckDatabase(ctx context.Context, urls ...string) (DatabaseReport, error) {
	report, err := postgres.Check(ctx, urls...)
	if err != nil {
		return report, fmt.Errorf("check the database: %w", err)
	}
	return report, nil
}

// Schema is where the schema of a database stands, and which programs go with it.
type Schema = schema.Schema

// ReadSchema returns where the schema of a database stands. It changes nothing.
func ReadSchema(ctx context.Context, url string) (Schema, error) {
	at, err := postgres.ReadSchema(ctx, url)
	if err != nil {
		return at, fmt.Errorf("read the schema: %w", err)
	}
	return at, nil
}
