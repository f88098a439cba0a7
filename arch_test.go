package posthaste_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"posthaste/internal/store"
)

// module is the import path of this package, the root of all others.
const module = "posthaste"

// layer is what a package may import of this module beside the root, and why
// that is all. Tests are free.
type layer struct {
	imports []string
	why     string
}

// layers are the arrows of the design. A package that is not listed may not
// exist: say here what it may know before it is written.
var layers = map[string]layer{
	".": {nil,
		"the vocabulary is shared by all, so it depends on nobody"},

	"internal/admission": {nil, "a pure rule: who goes on when there is not enough for all"},
	"internal/backoff":   {nil, "a pure rule: when to try again"},
	"internal/cron":      {nil, "a pure rule: when a schedule is due"},
	"internal/flow":      {nil, "a pure rule: what a limit lets through"},
	"internal/weburl":    {nil, "a pure rule: how a URL is written in ASCII"},
	"internal/sign":      {nil, "a pure rule: who signs and who may call; its vault is handed in"},

	"internal/store": {nil,
		"the seam: consumers and backends meet here and never in each other"},
	"internal/store/record": {nil,
		"the stored form of the vocabulary, the same for every backend"},
	"internal/store/index": {[]string{"internal/store", "internal/store/record"},
		"a pure rule: what something is found by and what a filter asks for, so that writers and readers of an index agree"},
	"internal/store/partition": {[]string{"internal/store"},
		"users are divided above a backend, whichever it is; what is kept is known by kind and key alone"},
	"internal/store/lsm/lanes": {[]string{"internal/store", "internal/flow"},
		"which message is next is decided in memory; how anything is stored is not known"},
	"internal/store/lsm/disk": {[]string{"internal/store"},
		"files and the disk are protected whatever is in them; no message is known"},
	"internal/store/lsm/postings": {[]string{"internal/store", "internal/store/index"},
		"sets of positions are united and intersected whatever they are of; keys are given by their prefixes"},
	"internal/store/lsm": {[]string{"internal/store", "internal/store/index", "internal/store/record", "internal/store/lsm/disk", "internal/store/lsm/lanes", "internal/store/lsm/postings", "internal/flow"},
		"a backend evaluates the pure rules within its transactions and knows no consumer and no sibling"},
	"internal/store/postgres/schema": {nil,
		"the tables, whatever is done with them"},
	"internal/store/postgres/node": {[]string{"internal/store"},
		"a process as a node, whatever it stores"},
	"internal/store/postgres": {[]string{"internal/admission", "internal/store", "internal/store/postgres/node", "internal/store/postgres/schema", "internal/store/index", "internal/store/record", "internal/backoff", "internal/cron", "internal/flow"},
		"a backend evaluates the pure rules within its transactions and knows no consumer and no sibling"},
	"internal/store/postgres/pgtest": {nil,
		"a server of the tests' own knows nothing of what they test"},
	"internal/ledger": {[]string{"internal/store", "internal/store/record", "internal/store/index", "internal/flow"},
		"the rules of delivery are written once, over the seam; they name no backend"},
	"internal/store/storetest": {[]string{"internal/store", "internal/store/record", "internal/ledger", "internal/store/storetest/model"},
		"the suite defines a backend by the seam alone, and compares it with the model"},
	"internal/store/storetest/model": {[]string{"internal/store", "internal/flow"},
		"the plainest backend: what it shares with the others are pure rules"},

	"internal/engine": {[]string{"internal/store", "internal/backoff", "internal/cron", "internal/flow"},
		"the rules of delivery speak to the world through the store and through interfaces of their own"},
	"internal/workflow": {[]string{"internal/backoff", "internal/engine", "internal/store"},
		"runs are made of the engine's messages; the engine knows them by an interface of its own"},
	"internal/dispatch": {[]string{"internal/backoff", "internal/weburl"},
		"one attempt over HTTP knows neither retries nor storage; signatures and the rules of reset headers are handed in"},
	"internal/eventlog": {[]string{"internal/store", "internal/store/index"},
		"the log is read from the store; nothing that happens passes through it; followers are found by the terms of an event, as events are by those of a filter"},
	"internal/runlog": {[]string{"internal/backoff", "internal/store"},
		"the log of runs is read from the store like that of messages; it knows no rule of runs, only what they leave behind"},
	"internal/telemetry": {[]string{"internal/admission", "internal/engine", "internal/store"},
		"it is told of events; nobody is told by it"},
	"internal/alert": {[]string{"internal/engine"},
		"it is told of events, and hands what it has to tell to a function it is given"},
	"internal/openapi": {nil,
		"the description of the API is read by people and by tests; the API does not know it"},
	"docs": {nil, "text that is shown, not code"},
	"internal/site": {[]string{"docs", "internal/openapi"},
		"the documentation is shown to whoever asks; it imports nothing of the server"},
	"internal/openapi/openapitest": {[]string{"internal/openapi"},
		"what tests compare the API with is its description"},
	"internal/api/wire": {[]string{"internal/engine", "internal/workflow", "internal/eventlog", "internal/runlog", "internal/store", "internal/backoff", "internal/cron", "internal/weburl"},
		"HTTP ends at the API: parameters and control headers become typed values here, and nothing behind it reads them again"},
	"internal/api": {[]string{"internal/engine", "internal/workflow", "internal/eventlog", "internal/runlog", "internal/api/wire", "internal/store", "internal/sign", "internal/cron", "internal/weburl"},
		"the surface decodes, calls and renders; it picks no parts"},
	"internal/console": {nil,
		"what it shows it asks of a server over HTTP, in the browser"},
	"internal/client": {nil,
		"what the command line asks of a server it asks over HTTP, as any client does"},

	"internal/app": {[]string{
		"internal/admission", "internal/alert", "internal/api", "internal/backoff", "internal/console", "internal/dispatch", "internal/engine", "internal/eventlog",
		"internal/ledger", "internal/runlog", "internal/sign", "internal/site", "internal/store", "internal/store/lsm", "internal/store/partition", "internal/store/postgres", "internal/store/postgres/schema", "internal/telemetry", "internal/workflow",
	}, "the one place that knows every part"},
	"internal/cli": {[]string{"internal/app", "internal/client", "internal/cron", "internal/dispatch", "internal/sign", "internal/telemetry"},
		"the command line turns texts into options; of the parts it knows those whose values are settings"},
	"cmd/posthaste": {[]string{"internal/cli"},
		"the program is its command line"},

	"e2e":            {nil, "tests from outside, with the tools of users"},
	"examples/order": {nil, "what is delivered to knows nothing of who delivers but the protocol"},
}

// technologies are the modules that are used, each by the packages that own it:
// to replace one is to change them and no other.
var technologies = map[string][]string{
	"github.com/alecthomas/mango-kong":               {"internal/cli"},
	"github.com/yuin/goldmark":                       {"internal/site"},
	"github.com/muesli/roff":                         {"internal/cli"},
	"github.com/alecthomas/kong":                     {"internal/cli"},
	"github.com/schollz/progressbar/v3":              {"internal/cli"},
	"github.com/modelcontextprotocol/go-sdk":         {"internal/cli"},
	"github.com/tmaxmax/go-sse":                      {"internal/client"},
	"go.yaml.in/yaml/v3":                             {"internal/cli", "internal/openapi", "internal/openapi/openapitest"},
	"github.com/santhosh-tekuri/jsonschema/v6":       {"internal/openapi/openapitest"},
	"github.com/go-chi/chi/v5":                       {"internal/api"},
	"github.com/golang-jwt/jwt/v5":                   {"internal/sign"},
	"go.opentelemetry.io/otel":                       {"internal/telemetry"},
	"github.com/prometheus/client_golang":            {"internal/app", "internal/telemetry"},
	"github.com/prometheus/client_model":             {"internal/telemetry"},
	"github.com/cockroachdb/pebble/v2":               {"internal/store/lsm", "internal/store/lsm/disk", "internal/store/lsm/postings"},
	"github.com/cespare/xxhash/v2":                   {"internal/store/index", "internal/store/lsm", "internal/store/lsm/disk"},
	"github.com/jackc/pgx/v5":                        {"internal/store/postgres", "internal/store/postgres/node", "internal/store/postgres/schema", "internal/store/postgres/pgtest"},
	"github.com/fxamacker/cbor/v2":                   {"internal/store/record"},
	"github.com/google/go-cmp":                       {"internal/store/storetest"},
	"golang.org/x/net":                               {"internal/weburl"},
	"golang.org/x/sync":                              {"internal/store/partition", "internal/store/postgres"},
	"golang.org/x/term":                              {"internal/cli"},
	"go.opentelemetry.io/contrib/bridges/otelslog":   {"internal/telemetry"},
	"go.opentelemetry.io/contrib/bridges/prometheus": {"internal/telemetry"},
}

func TestArrows(t *testing.T) {
	found := packages(t)
	for directory := range layers {
		if _, exists := found[directory]; !exists {
			t.Errorf("%s is listed in layers and does not exist", directory)
		}
	}
	for directory, imports := range found {
		allowed, listed := layers[directory]
		if !listed {
			t.Errorf("%s is a new package: add it to layers with what it may import and why", directory)
			continue
		}
		for _, imported := range imports {
			within, ours := strings.CutPrefix(imported, module+"/")
			if ours && !slices.Contains(allowed.imports, within) {
				t.Errorf("%s imports %s, but: %s", directory, within, allowed.why)
			}
		}
	}
}

func TestTechnologiesHaveOwners(t *testing.T) {
	for directory, imports := range packages(t) {
		for _, imported := range imports {
			technology := moduleOf(imported)
			owners, known := technologies[technology]
			switch {
			case technology == "":
			case !known:
				t.Errorf("%s imports %s: add the module to technologies, and say in the commit why it earns its place", directory, imported)
			case !slices.Contains(owners, directory):
				t.Errorf("%s imports %s, which belongs to %s", directory, imported, strings.Join(owners, " and "))
			}
		}
	}
}

// moduleOf returns the listed module of an import path, the path itself if none
// is, and "" for the standard library and this module.
func moduleOf(imported string) string {
	first, _, _ := strings.Cut(imported, "/")
	if first == module || !strings.Contains(first, ".") {
		return ""
	}
	for technology := range technologies {
		if imported == technology || strings.HasPrefix(imported, technology+"/") {
			return technology
		}
	}
	return imported
}

// packages returns what each directory with Go code imports, tests left out.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	found := make(map[string]map[string]bool)
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skipForeign(file)
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		directory := path.Dir(filepath.ToSlash(file))
		if found[directory] == nil {
			found[directory] = make(map[string]bool)
		}
		return addImports(found[directory], file)
	})
	if err != nil {
		t.Fatal(err)
	}
	packages := make(map[string][]string, len(found))
	for directory, imports := range found {
		packages[directory] = slices.Sorted(maps.Keys(imports))
	}
	return packages
}

// skipForeign leaves out directories whose Go files are not this module's.
func skipForeign(directory string) error {
	switch base := filepath.Base(directory); {
	case directory == ".":
		return nil
	case strings.HasPrefix(base, "."), base == "testdata", base == "node_modules":
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(directory, "go.mod")); err == nil {
		return filepath.SkipDir // a module of its own
	}
	return nil
}

func addImports(imports map[string]bool, file string) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		imports[imported] = true
	}
	return nil
}

// TestTheSeamIsNarrow counts what a backend has to implement. A new method should replace another.
func TestTheSeamIsNarrow(t *testing.T) {
	const most = 35 // in Backend, Log, Reader and Tx
	var methods []string
	for _, part := range []reflect.Type{reflect.TypeFor[store.Backend](), reflect.TypeFor[store.Tx]()} { // Tx has those of Reader
		for i := range part.NumMethod() {
			methods = append(methods, part.Name()+"."+part.Method(i).Name)
		}
	}
	if len(methods) > most {
		t.Errorf("a backend has %d methods, want at most %d: %v", len(methods), most, methods)
	}
}
