// Package archtest holds the architecture as tests: imports point down, files stay short, packages know what they may.
package archtest

import (
	"bufio"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// heights orders the packages: a package imports only packages of a smaller height. A new package must be given its place here.
var heights = map[string]int{
	"internal/archtest":   0,
	"internal/clock":      0,
	"internal/durable":    1,
	"internal/failpoint":  0,
	"internal/fastjson":   0,
	"internal/fixture":    0,
	"internal/histogram":  0,
	"internal/invariants": 0,
	"internal/mutant":     0,
	"internal/properties": 0,
	"internal/config":     2,
	"internal/crashtest":  4,
	"internal/sim":        7,

	"uring":                   1,
	"engine/message":          1,
	"engine/segment":          2,
	"engine/segment/memstore": 3,
	"engine/checkpoint":       2,
	"engine/consumequeue":     3,
	"engine/retention":        0,
	"engine/seal":             3,
	"engine/scrub":            5,
	"engine/commitlog":        4,
	"engine/flush":            4,
	"engine/inspect":          4,
	"engine/index":            3,
	"engine/dispatch":         5,
	"engine":                  6,
	"engine/repair":           7,

	"net/remoting": 2,
	"net/server":   3,
	"net/client":   3,
	"namesrv":      4,

	"broker/configfile": 2,
	"broker/filter":     2,
	"broker/stats":      0,
	"broker/lock":       1,
	"broker/topic":      7,
	"broker/group":      7,
	"broker/offset":     7,
	"broker/client":     7,
	"broker/longpoll":   7,
	"broker":            9,
	"broker/api":        8,

	"internal/metrics": 11,
	"cmd/ringmq":       12,
	"perf/bare":        0,
	"perf/put":         7,
	"perf/scale":       4,
}

const (
	maxLines     = 500 // of a file that is not a test
	maxTestLines = 700
)

type source struct {
	path    string // slash separated, from the root of the module
	imports []string
	lines   int
}

func sources(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	var list []source
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, file)
		rel = filepath.ToSlash(rel)
		if entry.IsDir() {
			if rel == "test" || strings.HasPrefix(path.Base(rel), ".") && rel != "." && rel != ".." {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		s := source{path: rel, lines: countLines(t, file)}
		for _, spec := range parsed.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			s.imports = append(s.imports, name)
		}
		list = append(list, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 20 {
		t.Fatalf("only %d sources found: the walk is wrong", len(list))
	}
	return list
}

func countLines(t *testing.T, file string) int {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		n++
	}
	return n
}

func TestImportsPointDown(t *testing.T) {
	for _, s := range sources(t) {
		from := path.Dir(s.path)
		height, known := heights[from]
		if !known {
			t.Errorf("%s: package %s has no height in this test", s.path, from)
			continue
		}
		if strings.HasSuffix(s.path, "_test.go") {
			continue // tests may look down from outside and use fixtures of any height
		}
		for _, imported := range s.imports {
			to, ours := strings.CutPrefix(imported, "ringmq/")
			if !ours {
				continue
			}
			if below, known := heights[to]; !known || below >= height {
				t.Errorf("%s imports %s, which is not below %s", s.path, to, from)
			}
		}
	}
}

func TestOnlyOnePackageKnowsEachOutsideLibrary(t *testing.T) {
	owners := map[string]string{
		"github.com/panjf2000/gnet":    "net/server",
		"github.com/iceber/iouring-go": "uring",
		"github.com/spf13/cobra":       "cmd/ringmq",
		"github.com/prometheus":        "internal/metrics",
		"github.com/schollz":           "cmd/ringmq",
	}
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		for _, imported := range s.imports {
			for library, owner := range owners {
				if strings.HasPrefix(imported, library) && path.Dir(s.path) != owner {
					t.Errorf("%s imports %s, which only %s may", s.path, imported, owner)
				}
			}
			if imported == "github.com/iceber/iouring-go" {
				t.Errorf("%s imports the root of iouring-go; only its syscall package links", s.path)
			}
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	for _, s := range sources(t) {
		limit := maxLines
		if strings.HasSuffix(s.path, "_test.go") {
			limit = maxTestLines
		}
		if s.lines > limit {
			t.Errorf("%s has %d lines, at most %d are allowed: it is perhaps two files", s.path, s.lines, limit)
		}
	}
}

func TestNoDrawerPackages(t *testing.T) {
	for _, s := range sources(t) {
		switch path.Base(path.Dir(s.path)) {
		case "common", "util", "utils", "types", "base", "helpers":
			t.Errorf("%s: a package is named for the thing it is", s.path)
		}
		if path.Dir(s.path) == "net" {
			t.Errorf("%s: no file stands directly in net/, so that nothing shadows the standard package", s.path)
		}
	}
}
