package api_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite what transcripts expect")

// TestTranscripts plays requests as they come over the wire. Each file of
// testdata has a request; what the engine was given for it, if anything; and
// the response. With -update the last two are written anew: read the diff.
//
// The fakes behind the surface are those of newSurface. A request with a body
// gets its Content-Length here.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		name, _ := filepath.Rel("testdata", strings.TrimSuffix(file, ".txtar"))
		t.Run(name, func(t *testing.T) {
			transcript, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, transcript)
			if *update {
				if err := os.WriteFile(file, txtar.Format(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(txtar.Format(transcript)), string(txtar.Format(got))); diff != "" && !*update {
				t.Errorf("transcript differs (-want +got):\n%s", diff)
			}
		})
	}
}

// play returns a transcript as it turns out.
func play(t *testing.T, transcript *txtar.Archive) *txtar.Archive {
	t.Helper()
	var seen published
	response := httptest.NewRecorder()
	newSurface(t, &seen, nil).ServeHTTP(response, readRequest(t, transcript.Files[0].Data))
	got := &txtar.Archive{Comment: transcript.Comment, Files: []txtar.File{transcript.Files[0]}}
	for _, p := range seen.publications {
		text := fmt.Sprintf("User: %s\n%s", seen.user, describe(p))
		got.Files = append(got.Files, txtar.File{Name: "published", Data: []byte(text)})
	}
	got.Files = append(got.Files, txtar.File{Name: "response", Data: describeResponse(response)})
	return got
}

// readRequest reads a request as a server does.
func readRequest(t *testing.T, text []byte) *http.Request {
	t.Helper()
	head, body, _ := bytes.Cut(text, []byte("\n\n"))
	body = bytes.TrimRight(body, "\n")
	wire := fmt.Appendf(nil, "%s\n", bytes.TrimSpace(head))
	if len(body) > 0 {
		wire = fmt.Appendf(wire, "Content-Length: %d\n", len(body))
	}
	wire = fmt.Appendf(wire, "Host: localhost\n\n%s", body)
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(wire)))
	if err != nil {
		t.Fatalf("bad request in transcript: %v", err)
	}
	r.RemoteAddr = "192.0.2.1:4711"
	return r
}

func describeResponse(response *httptest.ResponseRecorder) []byte {
	var text bytes.Buffer
	fmt.Fprintf(&text, "%d %s\n", response.Code, http.StatusText(response.Code))
	header := response.Result().Header
	if header.Get("Retry-After") != "" {
		header.Set("Retry-After", "soon, by chance") // TestBusy knows what it may be
	}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if name != "Content-Length" {
			fmt.Fprintf(&text, "%s: %s\n", name, strings.Join(header[name], ", "))
		}
	}
	fmt.Fprintf(&text, "\n%s", response.Body)
	return text.Bytes()
}

// describe writes what is set in a structure, one line a field.
func describe(v any) string {
	text, err := json.MarshalIndent(plain(reflect.ValueOf(v)), "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text) + "\n"
}

// plain returns a value in the form that reads best in JSON, without what is
// not set.
func plain(v reflect.Value) any {
	switch value := v.Interface().(type) {
	case []byte:
		return string(value)
	case time.Time:
		return value.UTC().Format(time.RFC3339)
	case time.Duration:
		return value.String()
	}
	switch v.Kind() {
	case reflect.Pointer:
		return plain(v.Elem())
	case reflect.Struct:
		fields := map[string]any{}
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				fields[v.Type().Field(i).Name] = plain(v.Field(i))
			}
		}
		return fields
	default:
		return v.Interface()
	}
}
