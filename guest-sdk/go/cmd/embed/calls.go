package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
)

// The package of the SDK, and its function that makes a handler the plugin's.
const sdk, register = "leasehold", "Handle"

// checkCalls refuses a plugin whose sources, in this folder, register a handler in a way that fails at its first run.
func checkCalls(folder string) error {
	target := build.Default
	target.GOOS, target.GOARCH = "wasip1", "wasm"
	sources, err := target.ImportDir(folder, 0)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	var first token.Pos
	for _, name := range sources.GoFiles {
		// Positions have the file's name as Go's own messages do.
		file, err := parser.ParseFile(files, filepath.Join(folder, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, call := range calls(file) {
			at := files.Position(call.at)
			switch {
			case call.in == "main":
				return fmt.Errorf("%s: leasehold.Handle is called in main, which never runs in a plugin: call it in init", at)
			case call.isNil:
				return fmt.Errorf("%s: leasehold.Handle is called with nil: it takes the handler", at)
			case call.always && first.IsValid():
				return fmt.Errorf("%s: leasehold.Handle is called again, after %s: a plugin has one handler", at, files.Position(first))
			case call.always:
				first = call.at
			}
		}
	}
	return nil
}

// call is one of leasehold.Handle.
type call struct {
	at token.Pos
	// The function that it is in, without methods.
	in string
	// Whether it is called with the word nil.
	isNil bool
	// Whether it is a statement of an init function's own, and not within an if.
	always bool
}

func calls(file *ast.File) (found []call) {
	name := importedAs(file)
	for _, declared := range file.Decls {
		function, ok := declared.(*ast.FuncDecl)
		if !ok || function.Recv != nil || function.Body == nil {
			continue
		}
		always := map[ast.Node]bool{}
		for _, statement := range function.Body.List {
			if expression, ok := statement.(*ast.ExprStmt); ok && function.Name.Name == "init" {
				always[expression.X] = true
			}
		}
		ast.Inspect(function.Body, func(node ast.Node) bool {
			if made, ok := node.(*ast.CallExpr); ok && isHandle(made.Fun, name) {
				isNil := len(made.Args) == 1 && isIdent(made.Args[0], "nil")
				found = append(found, call{made.Pos(), function.Name.Name, isNil, always[made]})
			}
			return true
		})
	}
	return found
}

// isHandle is true for leasehold.Handle, with or without its types.
func isHandle(function ast.Expr, name string) bool {
	switch typed := function.(type) {
	case *ast.IndexExpr:
		function = typed.X
	case *ast.IndexListExpr:
		function = typed.X
	}
	selected, ok := function.(*ast.SelectorExpr)
	return ok && selected.Sel.Name == register && isIdent(selected.X, name)
}

func isIdent(expression ast.Expr, name string) bool {
	ident, ok := expression.(*ast.Ident)
	return ok && ident.Name == name
}

// importedAs is what the file calls the SDK; empty where it does not import it.
func importedAs(file *ast.File) string {
	for _, spec := range file.Imports {
		if from, err := strconv.Unquote(spec.Path.Value); err != nil || from != sdk {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return sdk
	}
	return ""
}
