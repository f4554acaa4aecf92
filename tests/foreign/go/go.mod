module foreign

go 1.25
