"""surefoot"""
