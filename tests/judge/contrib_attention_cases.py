"""x"""
def cases():
    return []
